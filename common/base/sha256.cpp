#include "common/base/sha256.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace tenfold {
namespace {

using Words = std::array<uint32_t, 64>;

// The standard defines both tables as the first 32 bits of the fractional parts of roots of the first primes: square
// roots for the start, cube roots for the rounds. Integer arithmetic gives them exactly.
constexpr uint32_t fraction_of_root(uint64_t prime, int degree) {
  // Largest r with r^degree <= prime * 2^(32 degree): the root with 32 binary places.
  using Wide = unsigned __int128;
  uint64_t low = 0, high = uint64_t{1} << 37;
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    // Cube: compare middle^3 with prime 2^96, i.e. middle^2 with prime 2^96 / middle (the quotient is exact enough,
    // since both sides are integers).
    const Wide square = Wide{middle} * middle;
    const bool fits = degree == 2 ? square <= (Wide{prime} << 64) : square <= (Wide{prime} << 96) / middle;
    (fits ? low : high) = middle;
  }
  return static_cast<uint32_t>(low);
}

constexpr std::array<uint64_t, 64> first_primes() {
  std::array<uint64_t, 64> primes{};
  size_t count = 0;
  for (uint64_t candidate = 2; count < primes.size(); ++candidate) {
    bool prime = true;
    for (size_t i = 0; i < count; ++i) prime = prime && candidate % primes[i] != 0;
    if (prime) primes[count++] = candidate;
  }
  return primes;
}

constexpr std::array<uint64_t, 64> kPrimes = first_primes();

Words make_rounds() {
  Words rounds{};
  for (size_t i = 0; i < rounds.size(); ++i) rounds[i] = fraction_of_root(kPrimes[i], 3);
  return rounds;
}

void mix(std::array<uint32_t, 8>& hash, const unsigned char* block) {
  static const Words kRound = make_rounds();
  Words w{};
  for (size_t i = 0; i < 16; ++i) {
    for (size_t byte = 0; byte < 4; ++byte) w[i] = (w[i] << 8) | block[4 * i + byte];
  }
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = hash;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t first =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const uint32_t second = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  const std::array<uint32_t, 8> state = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) hash[i] += state[i];
}

}  // namespace

std::string sha256(std::string_view data) {
  std::array<uint32_t, 8> hash{};
  for (size_t i = 0; i < hash.size(); ++i) hash[i] = fraction_of_root(kPrimes[i], 2);

  const auto* bytes = reinterpret_cast<const unsigned char*>(data.data());
  size_t left = data.size();
  for (; left >= 64; left -= 64, bytes += 64) mix(hash, bytes);

  // The rest, a one bit, zeros, and the length in bits as the last 8 bytes.
  std::array<unsigned char, 128> tail{};
  if (left > 0) std::memcpy(tail.data(), bytes, left);
  tail[left] = 0x80;
  const size_t blocks = left < 56 ? 1 : 2;
  const uint64_t bits = uint64_t{data.size()} * 8;
  for (size_t i = 0; i < 8; ++i) tail[blocks * 64 - 1 - i] = static_cast<unsigned char>(bits >> (8 * i));
  for (size_t i = 0; i < blocks; ++i) mix(hash, tail.data() + 64 * i);

  std::string text;
  for (const uint32_t word : hash) {
    for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[(word >> shift) & 15];
  }
  return text;
}

}  // namespace tenfold
