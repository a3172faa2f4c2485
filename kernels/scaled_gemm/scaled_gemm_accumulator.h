#pragma once
// A model on the host of a tensor core that adds in fewer bits than float32 has, to see what promotion is for.
//
// Source: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, sections 3.3.2 and 3.5.2,
// <https://arxiv.org/abs/2412.19437>. It says of Hopper's fp8: 32 products are aligned at the largest one's exponent,
// the highest 14 bits of each are kept and the rest is cut off; and the sum that is kept between instructions has 14
// bits, too. How a GPU does the rest, NVIDIA does not say; this model is no bit-exact copy of one.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

namespace tenfold::kernels {

/// Bits that Hopper's tensor cores keep of a sum of fp8 products, and products of one instruction's step.
inline constexpr int kHopperBits = 14, kStepOfK = 32;

/// The sum of the addends, each cut off behind `bits` bits from the largest one's first bit on; and itself cut off to
/// as many.
inline double sum_in_bits(std::span<const double> addends, int bits) {
  const auto cut_off = [bits](double value, int exponent) {
    return std::ldexp(std::trunc(std::ldexp(value, bits - exponent)), exponent - bits);
  };
  const auto exponent_of = [](double value) {  // value is less than 2 to the power of it
    int exponent = 0;
    std::frexp(value, &exponent);
    return exponent;
  };
  double largest = 0, sum = 0;
  for (const double addend : addends) largest = std::max(largest, std::abs(addend));
  if (largest == 0) return 0;
  for (const double addend : addends) sum += cut_off(addend, exponent_of(largest));
  return sum == 0 ? 0 : cut_off(sum, exponent_of(sum));
}

/// The sum of products as tensor cores of so many bits make it, which are added in float32 and begin again from 0 after
/// each `promoted` of them; never with 0. Both are multiples of 32.
inline float accumulated(std::span<const double> products, int bits, size_t promoted) {
  float total = 0;
  double kept = 0;
  for (size_t at = 0; at < products.size(); at += kStepOfK) {
    const double step[] = {kept, sum_in_bits(products.subspan(at, kStepOfK), bits)};
    kept = sum_in_bits(step, bits);
    if (promoted != 0 && (at + kStepOfK) % promoted == 0) total += static_cast<float>(kept), kept = 0;
  }
  return total + static_cast<float>(kept);
}

}  // namespace tenfold::kernels
