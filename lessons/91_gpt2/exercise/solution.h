#pragma once
// The kept solution of exercise 91; CI proves that it passes.
#include <torch/torch.h>

#include <cstdint>

/// The weights of each head, (3, H, D / H, D): queries, keys and values, from GPT-2's c_attn as its file has it,
/// (D, 3 D). Throws c10::ValueError where c_attn is not of this shape or the heads do not divide D.
inline torch::Tensor heads_of_c_attn(const torch::Tensor& c_attn, int64_t heads) {
  TORCH_CHECK_VALUE(c_attn.dim() == 2 && c_attn.size(1) == 3 * c_attn.size(0), "c_attn is ", c_attn.sizes(),
                    " and not (D, 3 D)");
  const int64_t width = c_attn.size(0);
  TORCH_CHECK_VALUE(heads > 0 && width % heads == 0, "heads=", heads, " does not divide ", width);
  const torch::Tensor weight = c_attn.t();  // (3 D, D): a row for each feature that comes out
  return weight.reshape({3, heads, width / heads, width});
}
