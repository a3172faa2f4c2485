#pragma once
// cross_entropy.h in float64.

#include "kernels/expected.h"

namespace tenfold::kernels {

struct CrossEntropyExpected {
  Expected gradient, losses, mean;
  int64_t counted = 0;
};

/// cross_entropy() of `logits` (rows, classes) and `targets` (rows).
inline CrossEntropyExpected cross_entropy_reference(const std::vector<double>& logits,
                                                    const std::vector<int64_t>& targets, int64_t rows, int64_t classes,
                                                    int64_t ignore_index, Rounding type) {
  constexpr double kUnit = kFloatRounding.unit, kNan = std::numeric_limits<double>::quiet_NaN();
  CrossEntropyExpected expected{Expected(rows * classes), Expected(rows), Expected(1)};
  for (const int64_t target : targets) expected.counted += target != ignore_index ? 1 : 0;
  double total = 0, total_bound = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const auto r = static_cast<size_t>(row);
    const int64_t target = targets[r];
    if (target == ignore_index) continue;  // 0, exactly
    const double* x = logits.data() + row * classes;
    const bool valid = target >= 0 && target < classes;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0, shift = 0;
    for (int64_t c = 0; c < classes; ++c) largest = std::fmax(largest, x[c]);
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(x[c] - largest);
    // A difference is rounded before exp, which turns its absolute error into a relative one: what that makes of the
    // sum.
    for (int64_t c = 0; c < classes; ++c) {
      if (std::exp(x[c] - largest) > 0) shift += 2 * kUnit * std::exp(x[c] - largest) / sum * (largest - x[c]);
    }
    const double scale = 1.0 / static_cast<double>(expected.counted), of_sum = sum_error(classes) + shift;
    for (int64_t c = 0; c < classes; ++c) {
      const auto i = static_cast<size_t>(row * classes + c);
      const double below = x[c] - largest, p = std::exp(below) / sum, hit = c == target ? 1 : 0;
      expected.gradient.values[i] = valid ? (p - hit) * scale : kNan;
      expected.gradient.bounds[i] = type.least + type.unit * std::abs(p - hit) * scale + 4 * kUnit * (p + hit) * scale +
                                    (p == 0 ? 0 : p * scale * (of_sum + 2 * kUnit * std::abs(below)));
    }
    const double of_target = valid ? x[target] - largest : 0;
    expected.losses.values[r] = valid ? std::log(sum) - of_target : kNan;
    expected.losses.bounds[r] = of_sum + 4 * kUnit * (std::log(sum) + std::abs(of_target));
    total += expected.losses.values[r];
    total_bound += expected.losses.bounds[r] + sum_error(rows) * std::abs(expected.losses.values[r]);
  }
  expected.mean.values[0] = total / static_cast<double>(expected.counted);
  expected.mean.bounds[0] = total_bound / static_cast<double>(expected.counted) + kFloatRounding.least;
  return expected;
}

}  // namespace tenfold::kernels
