#pragma once
// softmax.h in float64.

#include "kernels/expected.h"

namespace tenfold::kernels {

/// softmax() of `in` (rows, columns).
inline Expected softmax_reference(const std::vector<double>& in, int64_t rows, int64_t columns, Rounding type) {
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
      expected.bounds[i] =
          type.least + (y == 0 ? 0 : y * (type.unit + sum_error(columns) + 2 * kFloatRounding.unit * std::abs(below)));
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
