#pragma once
// The GPT's small operators, eager and fused: LayerNorm, and the bias and GELU of the MLP. Nothing else of the GPT
// changes.

#include <torch/torch.h>

#include <cmath>

#include "common/models/gpt.h"
#include "kernels/bias_gelu/bias_gelu_torch.h"
#include "kernels/layer_norm/layer_norm_torch.h"

namespace tenfold::inline lesson_43 {

/// (..., D) -> (..., D), with parameters of shape (D).
struct GptOperators {
  torch::Tensor (*layer_norm)(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                              double epsilon);
  torch::Tensor (*bias_gelu)(const torch::Tensor& x, const torch::Tensor& bias);  ///< the tanh form
};

/// LayerNorm as the paper's formula. Each line is one operator or more, and each of these reads its inputs from memory
/// and writes its result to memory.
inline torch::Tensor eager_layer_norm(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                                      double epsilon) {
  const torch::Tensor centered = x - x.mean(-1, /*keepdim=*/true);
  const torch::Tensor variance = centered.square().mean(-1, /*keepdim=*/true);
  return centered * torch::rsqrt(variance + epsilon) * weight + bias;
}

/// The same for GELU, with the bias before it.
inline torch::Tensor eager_bias_gelu(const torch::Tensor& x, const torch::Tensor& bias) {
  const torch::Tensor sum = x + bias;
  return 0.5 * sum * (1 + torch::tanh(std::sqrt(2 / M_PI) * (sum + 0.044715 * sum.pow(3))));
}

/// One kernel for each: a value is read once, and what lies between input and result stays in registers.
inline torch::Tensor fused_bias_gelu(const torch::Tensor& x, const torch::Tensor& bias) {
  return fused::bias_gelu(x, bias, fused::Gelu::tanh);
}

inline constexpr GptOperators kEager{eager_layer_norm, eager_bias_gelu};
inline constexpr GptOperators kFused{fused::layer_norm, fused_bias_gelu};

/// The GPT with these operators.
inline GptParts with_operators(const GptOperators& operators) {
  GptParts parts;
  parts.norm = [operators](torch::nn::LayerNormImpl& layer, const torch::Tensor& x) {
    return operators.layer_norm(x, layer.weight, layer.bias, layer.options.eps());
  };
  parts.mlp = [operators](GptBlockImpl& block, const torch::Tensor& x) {
    const torch::Tensor inner = at::linear(x, block.up->weight);  // (..., 4 D); leaves its bias to the next operator
    return block.parts->linear(*block.down, operators.bias_gelu(inner, block.up->bias));
  };
  return parts;
}

}  // namespace tenfold::inline lesson_43
