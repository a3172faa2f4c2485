#pragma once
// What pack() and unpack() should write. Copies: no rounding, so every bound is 0.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/expected.h"

namespace tenfold::kernels {

/// Where sequences of these lengths begin, one after the other, and the end of the last.
inline std::vector<int64_t> beginnings(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> begin{0};
  for (const int64_t length : lengths) begin.push_back(begin.back() + length);
  return begin;
}

/// pack() for sequences of these lengths, none of them longer than `length`; `padded` (lengths.size(), length, width).
inline Expected pack_reference(const std::vector<double>& padded, const std::vector<int64_t>& lengths, int64_t length,
                               int64_t width) {
  Expected expected(beginnings(lengths).back() * width);
  auto to = expected.values.begin();
  for (size_t b = 0; b < lengths.size(); ++b) {
    const auto from = padded.begin() + static_cast<int64_t>(b) * length * width;
    to = std::copy(from, from + lengths[b] * width, to);
  }
  return expected;
}

/// unpack() likewise; `padding` as the type holds it.
inline Expected unpack_reference(const std::vector<double>& packed, const std::vector<int64_t>& lengths, int64_t length,
                                 int64_t width, double padding) {
  Expected expected(static_cast<int64_t>(lengths.size()) * length * width);
  std::fill(expected.values.begin(), expected.values.end(), padding);
  auto from = packed.begin();
  for (size_t b = 0; b < lengths.size(); ++b) {
    std::copy(from, from + lengths[b] * width, expected.values.begin() + static_cast<int64_t>(b) * length * width);
    from += lengths[b] * width;
  }
  return expected;
}

}  // namespace tenfold::kernels
