#pragma once
// A random part of each image, mirrored or not, as normalised floats: one image at a time with operators, in one
// pass without them, and for a whole batch with a handful of operators. All three give the same numbers, bit for bit.

#include <torch/torch.h>

#include "lessons/10_parallel_loading/random_resized_crop.h"
#include "lessons/10_parallel_loading/sample_random.h"

#include <array>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace tenfold::inline lesson_16 {

/// Where the square lies that is looked at, and whether it is mirrored left to right.
struct View {
  int64_t top = 0, left = 0;
  bool flip = false;
};

/// A square of `side` anywhere in a image of (height, width), mirrored half of the time. Throws std::invalid_argument
/// for a side below 1 or one that does not fit.
inline View random_view(int64_t height, int64_t width, int64_t side, SampleRandom& random) {
  if (side < 1 || side > height || side > width)
    throw std::invalid_argument("random_view: a square of " + std::to_string(side) + " does not fit into " +
                                std::to_string(height) + " x " + std::to_string(width));
  const bool flip = random.uniform() < 0.5;
  const int64_t top = random.below(height - side + 1);
  return {top, random.below(width - side + 1), flip};
}

/// Normalisation as (pixel - shift) * factor. A subtraction and a multiplication, which no compiler may join into one
/// rounding.
struct PixelScale {
  std::array<float, 3> shift{}, factor{};
  explicit PixelScale(const Normalisation& normal = {}) {
    for (size_t c = 0; c < 3; ++c) shift[c] = 255 * normal.mean[c], factor[c] = 1 / (255 * normal.deviation[c]);
  }
  /// (3, 1, 1) each.
  torch::Tensor shifts(torch::Device device) const { return of(shift, device); }
  torch::Tensor factors(torch::Device device) const { return of(factor, device); }

 private:
  static torch::Tensor of(const std::array<float, 3>& numbers, torch::Device device) {
    return torch::tensor(c10::ArrayRef<float>(numbers.data(), 3)).view({3, 1, 1}).to(device);
  }
};

/// By hand: operator after operator for one image (H, W, 3) of bytes. Each one is called, allocates and writes a
/// tensor. Returns (3, side, side).
inline torch::Tensor view_of(const torch::Tensor& image, const View& view, int64_t side, const torch::Tensor& shift,
                             const torch::Tensor& factor) {
  torch::Tensor part = image.narrow(0, view.top, side).narrow(1, view.left, side);  // (S, S, 3), no copy
  part = part.permute({2, 0, 1}).to(torch::kFloat);                                 // (3, S, S)
  if (view.flip) part = part.flip(2);
  return (part - shift) * factor;
}

/// In one pass: each byte is read once, each float written once, in its final place. `pixels` is (H, W, 3), `out` (3,
/// side, side). Throws std::invalid_argument for a view that is not inside the image, or sizes that do not fit.
inline void write_view(std::span<const uint8_t> pixels, int64_t height, int64_t width, const View& view, int64_t side,
                       const PixelScale& scale, std::span<float> out) {
  if (side < 1 || view.top < 0 || view.left < 0 || view.top + side > height || view.left + side > width ||
      pixels.size() != static_cast<size_t>(height * width * 3) || out.size() != static_cast<size_t>(3 * side * side))
    throw std::invalid_argument("write_view: the view is not inside the image, or the sizes do not fit");
  const int64_t plane = side * side;
  for (int64_t y = 0; y < side; ++y) {
    const uint8_t* from = pixels.data() + ((view.top + y) * width + view.left) * 3;
    for (int64_t c = 0; c < 3; ++c) {
      const float shift = scale.shift[static_cast<size_t>(c)], factor = scale.factor[static_cast<size_t>(c)];
      float* to = out.data() + c * plane + y * side;
      if (view.flip) {
        for (int64_t x = 0; x < side; ++x) to[x] = (static_cast<float>(from[3 * (side - 1 - x) + c]) - shift) * factor;
      } else {
        for (int64_t x = 0; x < side; ++x) to[x] = (static_cast<float>(from[3 * x + c]) - shift) * factor;
      }
    }
  }
}

/// A whole batch at once, wherever it lies: images (B, H, W, 3) bytes, and a row of `views` (B, 3) int64 for each:
/// top, left, flip. Each output pixel is told which input pixel it is, so that every image has a view of its own.
/// Returns (B, 3, side, side).
inline torch::Tensor views_of(const torch::Tensor& images, const torch::Tensor& views, int64_t side,
                              const torch::Tensor& shift, const torch::Tensor& factor) {
  TORCH_CHECK_VALUE(images.dim() == 4 && images.size(3) == 3 && images.is_contiguous(),
                    "views_of: images must be (B, H, W, 3)");
  TORCH_CHECK_VALUE(views.dim() == 2 && views.size(0) == images.size(0) && views.size(1) == 3,
                    "views_of: views must be (B, 3)");
  const int64_t batch = images.size(0), height = images.size(1), width = images.size(2);
  const torch::Tensor steps = torch::arange(side, views.options());                                   // (S)
  const torch::Tensor top = views.select(1, 0).unsqueeze(1), left = views.select(1, 1).unsqueeze(1);  // (B, 1) each
  const torch::Tensor flip = views.select(1, 2).unsqueeze(1).to(torch::kBool);                        // (B, 1)
  const torch::Tensor columns = left + torch::where(flip, side - 1 - steps, steps);                   // (B, S)
  const torch::Tensor first = torch::arange(batch, views.options()).unsqueeze(1) * height;            // (B, 1)
  const torch::Tensor rows = (first + top + steps) * width;                                           // (B, S)
  const torch::Tensor pixels = (rows.unsqueeze(2) + columns.unsqueeze(1)).flatten();                  // (B * S * S)
  const torch::Tensor picked = images.view({-1, 3}).index_select(0, pixels).view({batch, side, side, 3});
  // Without contiguous() the floats would keep the order of the bytes, channels last, and the convolution would be
  // another one.
  return picked.permute({0, 3, 1, 2}).contiguous().to(torch::kFloat).sub_(shift).mul_(factor);  // (B, 3, S, S)
}

}  // namespace tenfold::inline lesson_16
