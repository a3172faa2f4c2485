#pragma once
// R2's GPT with its attention exchanged. Nothing else changes.

#include <torch/torch.h>

#include <cmath>
#include <limits>

#include <tenfold/flash_attention_torch.h>
#include <tenfold/gpt.h>

namespace tenfold {

/// Causal attention of each head: q, k, v (B, H, T, D) -> (B, H, T, D).
using Attention = torch::Tensor (*)(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v);

/// As the formula stands in the paper. The scores are (B, H, T, T): a number for each pair of a query and a key. Each line reads or
/// writes all of them, and the weights stay until backward().
inline torch::Tensor attention_by_formula(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
  const int64_t length = q.size(2), width = q.size(3);
  const torch::Tensor later = torch::ones({length, length}, q.options().dtype(torch::kBool)).triu(1);
  torch::Tensor scores = torch::matmul(q, k.transpose(2, 3)) / std::sqrt(static_cast<double>(width));
  scores = scores.masked_fill(later, -std::numeric_limits<double>::infinity());
  return torch::matmul(torch::softmax(scores, -1), v);
}

/// ATen's fused operator: keys and values come by in tiles, and the scores of a tile are used at once. Kept for backward() is one
/// number for each query, from which the weights can be computed again.
inline torch::Tensor attention_by_aten(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
  return at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true);
}

/// The same by kernels/flash_attention.
inline torch::Tensor attention_by_kernel(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
  return fused::flash_attention(q, k, v, /*causal=*/true);
}

/// GptBlock::forward without dropout, (B, T, D) -> (B, T, D). Marks the regions "block.forward" and "attention".
inline torch::Tensor block_with(GptBlockImpl& block, const torch::Tensor& x, Attention attention) {
  TORCH_CHECK(block.dropout == 0, "block_with: has no dropout");
  return block.forward_with(x, [&](const torch::Tensor& qkv) {
    const auto parts = qkv.permute({2, 0, 3, 1, 4}).unbind(0);  // three of (B, H, T, D / H)
    return attention(parts[0], parts[1], parts[2]).transpose(1, 2).reshape(x.sizes());
  });
}

/// Mean cross-entropy of the model's predictions for `ids`, (B, T), against `targets`, (B, T).
inline torch::Tensor loss_with(GptImpl& model, const torch::Tensor& ids, const torch::Tensor& targets, Attention attention) {
  torch::Tensor h = model.embed(ids);  // (B, T, D)
  for (auto& block : model.blocks) h = block_with(*block, h, attention);
  return model.loss(h, targets);
}

}  // namespace tenfold
