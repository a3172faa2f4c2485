#pragma once
// bias_gelu.h in float64.

#include "bias_gelu.h"

#include "kernels/expected.h"

namespace tenfold::kernels {

struct GeluPoint {
  double value, slope;
};

inline GeluPoint gelu_reference(double x, Gelu form) {
  if (form == Gelu::exact) {
    const double below = 0.5 * std::erfc(-x / std::sqrt(2.0));  // the normal distribution's
    return {x * below, below + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI)};
  }
  const double scale = std::sqrt(2 / M_PI), t = std::tanh(scale * (x + 0.044715 * x * x * x)), rest = 1 - t * t;
  return {0.5 * x * (1 + t), 0.5 * (1 + t) + (rest == 0 ? 0 : 0.5 * x * rest * scale * (1 + 3 * 0.044715 * x * x))};
}

/// bias_gelu() of `in` (rows, columns) and `bias` (columns). `unfused`: the sum was rounded to the type, too.
inline Expected bias_gelu_reference(const std::vector<double>& in, const std::vector<double>& bias, Gelu form,
                                    Rounding type, bool unfused) {
  Expected expected(static_cast<int64_t>(in.size()));
  for (size_t i = 0; i < in.size(); ++i) {
    const double b = bias[i % bias.size()], x = in[i] + b, value = gelu_reference(x, form).value;
    expected.values[i] = value;
    // 1 + erf and 1 + tanh cancel for negative x: the error is small beside x, not beside the value. The slope is
    // below 1.13.
    expected.bounds[i] = type.least + type.unit * std::abs(value) + 8 * kFloatRounding.unit * std::abs(x);
    if (unfused) expected.bounds[i] += 1.13 * (type.unit * std::abs(x) + type.least);
  }
  return expected;
}

struct BiasGeluGradients {
  BiasGeluGradients(int64_t count, int64_t columns) : in(count), bias(columns) {}
  Expected in, bias;
};

/// bias_gelu_backward() for `grad_out` and `in` (rows, columns), `bias` (columns).
inline BiasGeluGradients bias_gelu_backward_reference(const std::vector<double>& grad_out,
                                                      const std::vector<double>& in, const std::vector<double>& bias,
                                                      Gelu form, Rounding type) {
  BiasGeluGradients expected(static_cast<int64_t>(in.size()), static_cast<int64_t>(bias.size()));
  const auto rows = static_cast<int64_t>(in.size() / bias.size());
  std::vector<double> magnitude(bias.size());
  for (size_t i = 0; i < in.size(); ++i) {
    const size_t c = i % bias.size();
    const double x = in[i] + bias[c], value = grad_out[i] * gelu_reference(x, form).slope;
    const double error = std::abs(grad_out[i]) * 32 * kFloatRounding.unit * (1 + std::fmin(std::abs(x), 10));
    expected.in.values[i] = value;
    expected.in.bounds[i] = type.least + type.unit * std::abs(value) + error;
    expected.bias.values[c] += value;
    expected.bias.bounds[c] += error;
    magnitude[c] += std::abs(value);
  }
  for (size_t c = 0; c < bias.size(); ++c) {
    expected.bias.bounds[c] +=
        type.least + type.unit * std::abs(expected.bias.values[c]) + sum_error(rows) * magnitude[c];
  }
  return expected;
}

}  // namespace tenfold::kernels
