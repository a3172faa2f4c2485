#pragma once
// The kept solution of exercise 33; CI proves that it passes.
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
  for (const float value : values) {
    if (value <= 0) {
      block.codes.push_back(0);
      continue;
    }
    const double steps = std::log2(static_cast<double>(value) / block.maximum) / std::log2(kRatio);
    block.codes.push_back(static_cast<uint8_t>(255 - std::min(std::lround(steps), 255L)));
  }
  return block;
}

/// The values that a block's codes stand for.
inline std::vector<float> decode(const Block& block) {
  std::vector<float> values;
  for (const uint8_t code : block.codes)
    values.push_back(static_cast<float>(block.maximum * std::pow(kRatio, 255 - code)));
  return values;
}
