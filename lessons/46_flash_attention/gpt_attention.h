#pragma once
// Causal attention three times, and any of them as the GPT's attention. Nothing else of the GPT changes.

#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <string>

#ifdef TENFOLD_WITH_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

#include "common/models/gpt.h"
#include "kernels/flash_attention/flash_attention_torch.h"

namespace tenfold::inline lesson_46 {

inline constexpr Setting<std::string> kPrecision{
    "precision", "float32", "of matmuls: float32, or bfloat16 under autocast", {"float32", "bfloat16"}};

/// Whether attention has a kernel for bfloat16: on a GPU from compute capability 8.0 on. Before it SDPA takes MATH.
inline bool has_bfloat16([[maybe_unused]] torch::Device device) {
#ifdef TENFOLD_WITH_CUDA
  if (device.is_cuda()) return at::cuda::getDeviceProperties(device.index())->major >= 8;
#endif
  return true;
}

/// Causal attention of each head: q, k, v (B, H, T, D) -> (B, H, T, D).
using Attention = torch::Tensor (*)(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v);

/// Eager: the paper's formula, operator by operator. The scores are (B, H, T, T): a number for each pair of a query and
/// a key. Each line reads or writes all of them, and the weights stay until backward().
inline torch::Tensor eager_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
  const int64_t length = q.size(2), width = q.size(3);
  const torch::Tensor later = torch::ones({length, length}, q.options().dtype(torch::kBool)).triu(1);
  torch::Tensor scores = torch::matmul(q, k.transpose(2, 3)) / std::sqrt(static_cast<double>(width));
  scores = scores.masked_fill(later, -std::numeric_limits<double>::infinity());
  return torch::matmul(torch::softmax(scores, -1), v);
}

/// ATen's fused operator: it reads keys and values in tiles and uses the scores of a tile at once. For backward() it
/// keeps one number for each query, from which the weights can be computed again.
inline torch::Tensor sdpa_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
  return at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true);
}

/// The same by kernels/flash_attention.
inline torch::Tensor kernel_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
  return fused::flash_attention(q, k, v, /*causal=*/true);
}

/// The GPT with this attention: (B, T, 3, H, D / H) -> (B, T, D). Throws c10::Error for a GPT that trains with dropout.
inline GptParts with_attention(Attention attention) {
  return {.attention = [attention](const torch::Tensor& qkv, double dropout) {
    TORCH_CHECK(dropout == 0, "with_attention: has no dropout");
    const auto parts = qkv.permute({2, 0, 3, 1, 4}).unbind(0);  // three of (B, H, T, D / H)
    return attention(parts[0], parts[1], parts[2]).transpose(1, 2).flatten(2);
  }};
}

}  // namespace tenfold::inline lesson_46
