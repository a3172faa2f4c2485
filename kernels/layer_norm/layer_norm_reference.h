#pragma once
// layer_norm.h in float64.

#include "kernels/expected.h"

namespace tenfold::kernels {

struct LayerNormExpected {
  LayerNormExpected(int64_t rows, int64_t columns) : out(rows * columns), mean(rows), rstd(rows) {}
  Expected out, mean, rstd;
};

/// layer_norm() of `in` (rows, columns) with `weight` and `bias` (columns).
inline LayerNormExpected layer_norm_reference(const std::vector<double>& in, const std::vector<double>& weight,
                                              const std::vector<double>& bias, int64_t rows, int64_t columns,
                                              double epsilon, Rounding type) {
  constexpr double kUnit = kFloatRounding.unit, kLeast = kFloatRounding.least;
  LayerNormExpected expected(rows, columns);
  for (int64_t row = 0; row < rows; ++row) {
    const auto r = static_cast<size_t>(row);
    const double *x = in.data() + row * columns, count = static_cast<double>(columns);
    double sum = 0, magnitude = 0, squares = 0;
    for (int64_t c = 0; c < columns; ++c) {
      sum += x[c];
      magnitude += std::abs(x[c]);
    }
    const double mean = sum / count;
    for (int64_t c = 0; c < columns; ++c) squares += (x[c] - mean) * (x[c] - mean);
    const double rstd = 1 / std::sqrt(squares / count + epsilon);
    const double mean_error = sum_error(columns) * magnitude / count;
    // An error of the mean enters the variance squared; each update of a running mean rounds it once more.
    const double rstd_error =
        sum_error(columns) + 8 * kUnit * std::abs(mean) * rstd + mean_error * rstd * mean_error * rstd;
    expected.mean.values[r] = mean;
    expected.mean.bounds[r] = mean_error + kLeast;
    expected.rstd.values[r] = rstd;
    expected.rstd.bounds[r] = rstd * rstd_error + kLeast;
    for (int64_t c = 0; c < columns; ++c) {
      const auto i = static_cast<size_t>(row * columns + c), j = static_cast<size_t>(c);
      const double normal = (x[c] - mean) * rstd, value = normal * weight[j] + bias[j];
      expected.out.values[i] = value;
      expected.out.bounds[i] = type.least + type.unit * std::abs(value) +
                               std::abs(weight[j]) * (mean_error * rstd + std::abs(normal) * (rstd_error + 4 * kUnit)) +
                               2 * kUnit * (std::abs(normal * weight[j]) + std::abs(bias[j]));
    }
  }
  return expected;
}

struct LayerNormGradients {
  LayerNormGradients(int64_t rows, int64_t columns) : in(rows * columns), weight(columns), bias(columns) {}
  Expected in, weight, bias;
};

/// layer_norm_backward() for `grad_out` and `in` (rows, columns), `mean` and `rstd` (rows), `weight` (columns).
inline LayerNormGradients layer_norm_backward_reference(const std::vector<double>& grad_out,
                                                        const std::vector<double>& in, const std::vector<double>& mean,
                                                        const std::vector<double>& rstd,
                                                        const std::vector<double>& weight, int64_t rows,
                                                        int64_t columns, Rounding type) {
  constexpr double kUnit = kFloatRounding.unit;
  LayerNormGradients expected(rows, columns);
  const auto columns_size = static_cast<size_t>(columns);
  std::vector<double> weight_magnitude(columns_size), bias_magnitude(columns_size);
  for (int64_t row = 0; row < rows; ++row) {
    const auto r = static_cast<size_t>(row);
    const auto at = [&](size_t c) { return r * columns_size + c; };
    const auto normal = [&](size_t c) { return (in[at(c)] - mean[r]) * rstd[r]; };
    double plain = 0, with_in = 0, plain_magnitude = 0, with_in_magnitude = 0;
    for (size_t c = 0; c < columns_size; ++c) {
      const double g = grad_out[at(c)], weighted = g * weight[c];
      plain += weighted / static_cast<double>(columns);
      with_in += weighted * normal(c) / static_cast<double>(columns);
      plain_magnitude += std::abs(weighted) / static_cast<double>(columns);
      with_in_magnitude += std::abs(weighted * normal(c)) / static_cast<double>(columns);
      expected.weight.values[c] += g * normal(c);
      expected.bias.values[c] += g;
      weight_magnitude[c] += std::abs(g * normal(c));
      bias_magnitude[c] += std::abs(g);
    }
    for (size_t c = 0; c < columns_size; ++c) {
      const double weighted = grad_out[at(c)] * weight[c], value = rstd[r] * (weighted - plain - normal(c) * with_in);
      const double sums = sum_error(columns) * (plain_magnitude + std::abs(normal(c)) * with_in_magnitude);
      const double steps = 8 * kUnit * (std::abs(weighted) + std::abs(plain) + std::abs(normal(c) * with_in));
      expected.in.values[at(c)] = value;
      expected.in.bounds[at(c)] = type.least + type.unit * std::abs(value) + rstd[r] * (sums + steps);
    }
  }
  for (size_t c = 0; c < columns_size; ++c) {
    expected.weight.bounds[c] =
        type.least + type.unit * std::abs(expected.weight.values[c]) + sum_error(rows) * weight_magnitude[c];
    expected.bias.bounds[c] =
        type.least + type.unit * std::abs(expected.bias.values[c]) + sum_error(rows) * bias_magnitude[c];
  }
  return expected;
}

}  // namespace tenfold::kernels
