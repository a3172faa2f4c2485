#pragma once
// The forms of a linear layer that lesson 35 compares.

#include <torch/torch.h>

#include <memory>

#include "common/harness/lesson.h"
#include "common/measure/dry.h"
#include "dynamic_int8_linear.h"
#include "eight_bit_rows.h"
#include "other_linears.h"
#include "settings.h"

namespace tenfold::inline lesson_35 {

/// Weights and activations of int8: the product itself is one of integers.
inline MakeForm dynamic_int8(const Trial& trial) {
  if (!trial.device.is_cpu()) trial.skip("quantized::linear_dynamic has no CUDA kernel");
  if (!has_int8_products()) trial.skip("needs FBGEMM: a CPU of x86 with AVX2");
  return [](const torch::nn::LinearImpl& layer) {
    const auto fast = std::make_shared<DynamicInt8Linear>(layer.weight, layer.bias);
    return LinearForm{[fast](const torch::Tensor& x) { return fast->forward(x); }, fast->outside_bytes()};
  };
}

/// What weights of 8 bits must beat on a GPU: weights of 16, multiplied as they are.
inline MakeForm bf16_weights(const Trial& /*trial*/) {
  return [](const torch::nn::LinearImpl& layer) {
    const auto half = [](const torch::Tensor& x) { return x.defined() ? x.detach().to(torch::kBFloat16) : x; };
    return LinearForm{[half, weight = half(layer.weight), bias = half(layer.bias)](const torch::Tensor& x) {
      return torch::linear(half(x), weight, bias).to(x.scalar_type());
    }};
  };
}

/// Weights of 8 bits, whatever makes them; the product is one of 32 bits.
inline MakeForm weight_only(const Trial& trial, EightBitRows (*quantize)(const torch::Tensor&)) {
  return [quantize, at_a_time = trial.get(kRowsAtATime)](const torch::nn::LinearImpl& layer) {
    const auto forward = [rows = quantize(layer.weight), bias = layer.bias, at_a_time](const torch::Tensor& x) {
      return weight_only_linear(x, rows, bias, at_a_time);
    };
    return LinearForm{forward};
  };
}

inline MakeForm int8_weights(const Trial& trial) { return weight_only(trial, int8_rows); }
inline MakeForm fp8_weights(const Trial& trial) { return weight_only(trial, fp8_rows); }

/// Weights of 8 bits that are multiplied as they are read.
inline MakeForm int8_one_kernel(const Trial& trial) {
  if (dry_card()) trial.skip("LibTorch's kernel reads 32 rows at a time, which a time modelled by bytes does not see");
  return [](const torch::nn::LinearImpl& layer) {
    return LinearForm{[rows = int8_rows(layer.weight), bias = layer.bias](const torch::Tensor& x) {
      return one_kernel_linear(x, rows, bias);
    }};
  };
}

/// A trap: codes are not clamped. The largest weight of a row is 127.5 steps, which rounds to 128 half of the time, and
/// 128 in int8 is -128.
inline EightBitRows wrapped_rows(const torch::Tensor& weight) {
  const torch::Tensor scales = row_scales(weight, 127.5);
  torch::Tensor steps = weight.detach().mul(scales.reciprocal().unsqueeze(1)).round_();
  return {steps.to(torch::kInt).to(torch::kChar), scales};
}
inline MakeForm no_clamp(const Trial& trial) { return weight_only(trial, wrapped_rows); }

}  // namespace tenfold::inline lesson_35
