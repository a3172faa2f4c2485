#pragma once
// The kept solution of exercise 16; CI proves that it passes.
#include <torch/torch.h>

/// images (B, C, H, W); roll (B) int64, 0 <= roll < W; flip (B) bool. Returns (B, C, H, W). Column x of image b is
/// column (x + roll[b]) modulo W of images[b], read from the right end, (W - 1 - x + roll[b]) modulo W, where flip[b]
/// is set.
inline torch::Tensor turn_batch(const torch::Tensor& images, const torch::Tensor& roll, const torch::Tensor& flip) {
  const int64_t width = images.size(3);
  const torch::Tensor x = torch::arange(width, roll.options());                                      // (W)
  const torch::Tensor from = torch::where(flip.unsqueeze(1), width - 1 - x, x) + roll.unsqueeze(1);  // (B, W)
  return images.gather(3, from.remainder(width).view({-1, 1, 1, width}).expand_as(images));
}
