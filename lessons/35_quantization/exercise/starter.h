#pragma once
// Your answer to exercise 35. Build and check it with: ./tenfold exercise 35
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// A weight of `inputs` times as many outputs as there are scales, in int8.
struct Int8Weight {
  size_t inputs = 0;
  std::vector<int8_t> codes;  ///< output after output
  std::vector<float> scales;  ///< one for each output: a weight is about code * scale
  std::vector<int32_t> sums;  ///< one for each output: of its codes
};

/// Activations in 8 bits: a value is about scale * (code - zero).
struct UInt8Values {
  float scale = 1;
  int32_t zero = 0;
  std::vector<uint8_t> codes;
};

/// Each output's largest magnitude becomes code 127 or -127; an output of zeros has the scale 1.
inline Int8Weight quantize_weight(std::span<const float> weight, size_t inputs) {
  Int8Weight result;
  result.inputs = inputs;
  float largest = 0;
  for (const float value : weight) largest = std::max(largest, std::abs(value));
  // Hint: this is one scale for all outputs. What becomes of an output whose weights are a thousand times smaller?
  const float scale = largest > 0 ? largest / 127 : 1;
  for (const float value : weight) result.codes.push_back(static_cast<int8_t>(std::lround(value / scale)));
  for (size_t output = 0; output * inputs < weight.size(); ++output) {
    result.scales.push_back(scale);
    int32_t sum = 0;
    for (size_t i = 0; i < inputs; ++i) sum += result.codes[output * inputs + i];
    result.sums.push_back(sum);
  }
  return result;
}

/// Codes 0 to 127 cover the values from the smallest to the largest, and zero always, which has a code of its own.
inline UInt8Values quantize_values(std::span<const float> values) {
  float low = 0, high = 0;
  for (const float value : values) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  UInt8Values result;
  if (high > low) result.scale = (high - low) / 127;
  result.zero = static_cast<int32_t>(std::lround(-low / result.scale));
  for (const float value : values) {
    const long code = std::lround(value / result.scale) + result.zero;
    result.codes.push_back(static_cast<uint8_t>(std::clamp(code, 0L, 127L)));
  }
  return result;
}

/// One result for each output, by products of codes alone in the innermost loop.
inline std::vector<float> int8_product(const Int8Weight& weight, const UInt8Values& x) {
  std::vector<float> result;
  for (size_t output = 0; output < weight.scales.size(); ++output) {
    int32_t sum = 0;
    for (size_t i = 0; i < weight.inputs; ++i) sum += weight.codes[output * weight.inputs + i] * x.codes[i];
    // Hint: the codes of x begin at x.zero and not at 0.
    result.push_back(static_cast<float>(sum) * weight.scales[output] * x.scale);
  }
  return result;
}
