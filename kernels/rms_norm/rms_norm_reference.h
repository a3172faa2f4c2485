#pragma once
// rms_norm.h in float64.

#include "kernels/expected.h"

namespace tenfold::kernels {

struct RmsNormExpected {
  RmsNormExpected(int64_t rows, int64_t columns) : out(rows * columns), rstd(rows) {}
  Expected out, rstd;
};

/// rms_norm() of `in` (rows, columns) with `weight` (columns).
inline RmsNormExpected rms_norm_reference(const std::vector<double>& in, const std::vector<double>& weight,
                                          int64_t rows, int64_t columns, double epsilon, Rounding type) {
  constexpr double kUnit = kFloatRounding.unit, kLeast = kFloatRounding.least;
  RmsNormExpected expected(rows, columns);
  for (int64_t row = 0; row < rows; ++row) {
    const auto r = static_cast<size_t>(row);
    const double* x = in.data() + row * columns;
    double squares = 0;
    for (int64_t c = 0; c < columns; ++c) squares += x[c] * x[c];
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(columns) + epsilon);
    const double rstd_error = sum_error(columns);  // relative; the root halves the sum's, and has a few of its own
    expected.rstd.values[r] = rstd;
    expected.rstd.bounds[r] = rstd * rstd_error + kLeast;
    for (int64_t c = 0; c < columns; ++c) {
      const auto i = static_cast<size_t>(row * columns + c);
      const double value = x[c] * rstd * weight[static_cast<size_t>(c)];
      expected.out.values[i] = value;
      expected.out.bounds[i] = type.least + std::abs(value) * (type.unit + rstd_error + 4 * kUnit);
    }
  }
  return expected;
}

struct RmsNormGradients {
  RmsNormGradients(int64_t rows, int64_t columns) : in(rows * columns), weight(columns) {}
  Expected in, weight;
};

/// rms_norm_backward() for `grad_out` and `in` (rows, columns), `rstd` (rows), `weight` (columns).
inline RmsNormGradients rms_norm_backward_reference(const std::vector<double>& grad_out, const std::vector<double>& in,
                                                    const std::vector<double>& rstd, const std::vector<double>& weight,
                                                    int64_t rows, int64_t columns, Rounding type) {
  constexpr double kUnit = kFloatRounding.unit;
  RmsNormGradients expected(rows, columns);
  const auto columns_size = static_cast<size_t>(columns);
  std::vector<double> weight_magnitude(columns_size);
  for (int64_t row = 0; row < rows; ++row) {
    const auto r = static_cast<size_t>(row);
    const auto at = [&](size_t c) { return r * columns_size + c; };
    const auto normal = [&](size_t c) { return in[at(c)] * rstd[r]; };
    double mean = 0, magnitude = 0;
    for (size_t c = 0; c < columns_size; ++c) {
      const double g = grad_out[at(c)], term = g * weight[c] * normal(c) / static_cast<double>(columns);
      mean += term;
      magnitude += std::abs(term);
      expected.weight.values[c] += g * normal(c);
      weight_magnitude[c] += std::abs(g * normal(c));
    }
    for (size_t c = 0; c < columns_size; ++c) {
      const double weighted = grad_out[at(c)] * weight[c], value = rstd[r] * (weighted - normal(c) * mean);
      const double sum = sum_error(columns) * std::abs(normal(c)) * magnitude;
      const double steps = 8 * kUnit * (std::abs(weighted) + std::abs(normal(c) * mean));
      expected.in.values[at(c)] = value;
      expected.in.bounds[at(c)] = type.least + type.unit * std::abs(value) + rstd[r] * (sum + steps);
    }
  }
  for (size_t c = 0; c < columns_size; ++c) {
    expected.weight.bounds[c] =
        type.least + type.unit * std::abs(expected.weight.values[c]) + sum_error(rows) * weight_magnitude[c];
  }
  return expected;
}

}  // namespace tenfold::kernels
