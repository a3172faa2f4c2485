#pragma once
// softmax.h in float64.

#include "kernels/expected.h"
#include "softmax.h"

namespace tenfold::kernels {

/// How far from exp(x) what a rung takes for it may lie, relative to it: `unit`, and `of_argument` times abs(x); and
/// `least`, below which it may be 0. expf() is within the rounding that sum_error() allows, and x is rounded once. From
/// rung 3 on it is exp_below(): x and x log2(e) are rounded, log2(e) as a float is off by a quarter of that, and
/// ex2.approx.ftz is within 2^-22 and flushes what is below 2^-126 (PTX ISA). A result has it twice, as the sum has it.
struct ExponentialError {
  double unit, of_argument, least;
};
inline constexpr ExponentialError softmax_exponential_error(int rung) {
  if (rung < 3) return {0, 2 * kFloatRounding.unit, 0};
  return {2 * 0x1p-22, 2.25 * kFloatRounding.unit, 0x1p-126};
}

/// softmax() of `in` (rows, columns) by this rung, or by the least exact one.
inline Expected softmax_reference(const std::vector<double>& in, int64_t rows, int64_t columns, Rounding type,
                                  int rung = kSoftmaxRungs - 1) {
  const ExponentialError exponential = softmax_exponential_error(rung);
  Expected expected(rows * columns);
  for (int64_t row = 0; row < rows; ++row) {
    const double* x = in.data() + row * columns;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t c = 0; c < columns; ++c) largest = std::fmax(largest, x[c]);
    for (int64_t c = 0; c < columns; ++c) sum += std::exp(x[c] - largest);
    for (int64_t c = 0; c < columns; ++c) {
      const auto i = static_cast<size_t>(row * columns + c);
      const double below = x[c] - largest, y = std::exp(below) / sum;
      expected.values[i] = y;
      // The difference is rounded before exp, which turns its absolute error into a relative one.
      expected.bounds[i] = type.least;
      if (y == 0) continue;
      expected.bounds[i] += exponential.least + y * (type.unit + sum_error(columns) + exponential.unit +
                                                     exponential.of_argument * std::abs(below));
    }
  }
  return expected;
}

/// softmax_backward() for `grad_out` and `out` (rows, columns).
inline Expected softmax_backward_reference(const std::vector<double>& grad_out, const std::vector<double>& out,
                                           int64_t rows, int64_t columns, Rounding type) {
  Expected expected(rows * columns);
  for (int64_t row = 0; row < rows; ++row) {
    const double *g = grad_out.data() + row * columns, *y = out.data() + row * columns;
    double sum = 0, magnitude = 0;
    for (int64_t c = 0; c < columns; ++c) {
      sum += g[c] * y[c];
      magnitude += std::abs(g[c] * y[c]);
    }
    for (int64_t c = 0; c < columns; ++c) {
      const auto i = static_cast<size_t>(row * columns + c);
      const double value = y[c] * (g[c] - sum);
      expected.values[i] = value;
      expected.bounds[i] = type.least + type.unit * std::abs(value) +
                           std::abs(y[c]) * (sum_error(columns) * magnitude +
                                             4 * kFloatRounding.unit * (std::abs(g[c]) + std::abs(sum)));
    }
  }
  return expected;
}

}  // namespace tenfold::kernels
