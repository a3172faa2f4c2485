#pragma once
// R2's GPT with its small operators exchanged: LayerNorm, and the bias and GELU of the MLP. Nothing else changes.

#include <torch/torch.h>

#include <ATen/record_function.h>

#include <cmath>

#include <tenfold/bias_gelu_torch.h>
#include <tenfold/gpt.h>
#include <tenfold/layer_norm_torch.h>

namespace tenfold {

/// (..., D) -> (..., D), with parameters of shape (D).
struct GptOperators {
  torch::Tensor (*layer_norm)(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias, double epsilon);
  torch::Tensor (*bias_gelu)(const torch::Tensor& x, const torch::Tensor& bias);  ///< the tanh form
};

/// The formula of LayerNorm as it stands in the paper. Each line is one operator or more, and each of these reads its
/// inputs from memory and writes its result to memory.
inline torch::Tensor layer_norm_by_formula(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias, double epsilon) {
  const torch::Tensor centered = x - x.mean(-1, /*keepdim=*/true);
  const torch::Tensor variance = centered.square().mean(-1, /*keepdim=*/true);
  return centered * torch::rsqrt(variance + epsilon) * weight + bias;
}

/// The same for GELU, with the bias before it.
inline torch::Tensor bias_gelu_by_formula(const torch::Tensor& x, const torch::Tensor& bias) {
  const torch::Tensor sum = x + bias;
  return 0.5 * sum * (1 + torch::tanh(std::sqrt(2 / M_PI) * (sum + 0.044715 * sum.pow(3))));
}

/// One kernel for each: a value is read once, and what lies between input and result stays in registers.
inline torch::Tensor bias_gelu_fused(const torch::Tensor& x, const torch::Tensor& bias) {
  return fused::bias_gelu(x, bias, fused::Gelu::tanh);
}

inline constexpr GptOperators kByFormula{layer_norm_by_formula, bias_gelu_by_formula};
inline constexpr GptOperators kFused{fused::layer_norm, bias_gelu_fused};

/// GptBlock::forward without dropout, (B, T, D) -> (B, T, D).
inline torch::Tensor block_forward(GptBlockImpl& block, const torch::Tensor& x, const GptOperators& operators) {
  RECORD_USER_SCOPE("block.forward");
  TORCH_CHECK(block.dropout == 0, "block_forward: has no dropout");
  const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
  const auto norm = [&](torch::nn::LayerNorm& layer, const torch::Tensor& t) {
    return operators.layer_norm(t, layer->weight, layer->bias, layer->options.eps());
  };
  const auto parts =
      block.qkv(norm(block.norm1, x)).view({batch, length, 3, block.heads, width / block.heads}).permute({2, 0, 3, 1, 4}).unbind(0);
  const torch::Tensor attended =
      at::scaled_dot_product_attention(parts[0], parts[1], parts[2], /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true);
  const torch::Tensor h = x + block.projection(attended.transpose(1, 2).reshape({batch, length, width}));
  // The product leaves its bias to the operator that follows.
  const torch::Tensor inner = at::linear(norm(block.norm2, h), block.up->weight);  // (B, T, 4 D)
  return h + block.down(operators.bias_gelu(inner, block.up->bias));
}

/// Mean cross-entropy of the model's predictions for `ids`, (B, T), against `targets`, (B, T).
inline torch::Tensor loss_with(GptImpl& model, const torch::Tensor& ids, const torch::Tensor& targets, const GptOperators& operators) {
  torch::Tensor h = model.embed(ids);  // (B, T, D)
  for (auto& block : model.blocks) h = block_forward(*block, h, operators);
  RECORD_USER_SCOPE("head.forward");
  h = operators.layer_norm(h, model.norm->weight, model.norm->bias, model.norm->options.eps());
  return torch::nn::functional::cross_entropy(model.head(h).view({-1, model.config.vocabulary}), targets.reshape({-1}));
}

}  // namespace tenfold
