#pragma once
// Your answer to exercise 91. Build and check it with: ./tenfold exercise 91
#include <torch/torch.h>

#include <cstdint>

/// The weights of each head, (3, H, D / H, D): queries, keys and values, from GPT-2's c_attn as its file has it,
/// (D, 3 D). Throws c10::ValueError where c_attn is not of this shape or the heads do not divide D.
inline torch::Tensor heads_of_c_attn(const torch::Tensor& c_attn, int64_t heads) {
  // Hint: the file computes x W with W (in, out); a row of W belongs to a feature that comes in.
  const int64_t width = c_attn.size(0);
  return c_attn.reshape({3, heads, width / heads, width});  // not what the file means
}
