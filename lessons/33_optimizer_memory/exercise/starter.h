#pragma once
// Your answer to exercise 33. Build and check it with: ./tenfold exercise 33
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

/// A block of values in 8 bits each.
struct Block {
  float maximum = 0;           ///< the largest value, as it is
  std::vector<uint8_t> codes;  ///< one for each value
};

/// Code c stands for maximum * kRatio^(255 - c): 24 octaves by 255 equal factors.
inline const double kRatio = std::exp2(-24.0 / 255);

/// Values of 0 and more as the nearest codes, by their logarithm.
inline Block encode(std::span<const float> values) {
  Block block{*std::max_element(values.begin(), values.end()), {}};
  // Hint: these are equal steps. What does a value of a thousandth of the maximum become?
  for (const float value : values)
    block.codes.push_back(block.maximum > 0 ? static_cast<uint8_t>(std::lround(255 * value / block.maximum)) : 0);
  return block;
}

/// The values that a block's codes stand for.
inline std::vector<float> decode(const Block& block) {
  std::vector<float> values;
  for (const uint8_t code : block.codes) values.push_back(block.maximum * static_cast<float>(code) / 255);
  return values;
}
