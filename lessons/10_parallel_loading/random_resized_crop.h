#pragma once
// A random part of a image, resized, mirrored or not, and normalised: in one pass over the part's pixels.
//
// As separate steps each reads and writes the whole image: crop, resize, flip, bytes to floats, channels first, minus
// mean, over deviation. But resizing is a weighted sum, flipping only mirrors its weights, and the rest is a factor and
// an addend. So a row of the image is resized along its length and then added to the few rows of the result that it
// belongs to, in their final place.

#include "common/data/pictures.h"
#include "sample_random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

namespace tenfold::inline lesson_10 {

/// A rectangle of a image, and whether its result is mirrored left to right.
struct Crop {
  int64_t top = 0, left = 0, height = 0, width = 0;
  bool flip = false;
};

/// Which rectangles are drawn. The area's part of the image is uniform, the logarithm of width / height is, too.
struct CropRange {
  double least_area = 0.25, most_area = 1;
  double least_aspect = 3.0 / 4, most_aspect = 4.0 / 3;
  double flip_probability = 0.5;
};

/// A random rectangle. One that does not fit is drawn anew, after ten attempts it is the largest in the middle whose
/// aspect is allowed. Source: C. Szegedy et al., Going Deeper with Convolutions, 2015, section 6; the attempts as in
/// torchvision.
inline Crop random_crop(const PictureSize& size, SampleRandom& random, const CropRange& range = {}) {
  const bool flip = random.uniform() < range.flip_probability;
  const double area = static_cast<double>(size.height * size.width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double wanted = area * random.uniform(range.least_area, range.most_area);
    const double aspect = std::exp(random.uniform(std::log(range.least_aspect), std::log(range.most_aspect)));
    const auto width = static_cast<int64_t>(std::lround(std::sqrt(wanted * aspect)));
    const auto height = static_cast<int64_t>(std::lround(std::sqrt(wanted / aspect)));
    if (width < 1 || height < 1 || width > size.width || height > size.height) continue;
    return {random.below(size.height - height + 1), random.below(size.width - width + 1), height, width, flip};
  }
  const double aspect = static_cast<double>(size.width) / static_cast<double>(size.height);
  const double allowed = std::clamp(aspect, range.least_aspect, range.most_aspect);
  const auto rounded = [](double x) { return std::max<int64_t>(1, std::lround(x)); };
  const int64_t width = aspect <= allowed ? size.width : rounded(static_cast<double>(size.height) * allowed);
  const int64_t height = aspect >= allowed ? size.height : rounded(static_cast<double>(size.width) / allowed);
  return {(size.height - height) / 2, (size.width - width) / 2, height, width, flip};
}

/// The largest square in the middle: for images that are tested with.
inline Crop centre_crop(const PictureSize& size) {
  const int64_t side = std::min(size.height, size.width);
  return {(size.height - side) / 2, (size.width - side) / 2, side, side, false};
}

/// (pixel / 255 - mean) / deviation for each channel.
struct Normalisation {
  std::array<float, 3> mean = {0.5F, 0.5F, 0.5F}, deviation = {0.25F, 0.25F, 0.25F};
};

/// The weights by which `source` numbers in a row become `target`: a triangle as wide as two steps of the coarser of
/// the two, so that a smaller image has no aliases. (What Pillow's BILINEAR and torchvision's antialias=True do.)
struct ResizeWeights {
  struct Span {
    int64_t first = 0, count = 0;  ///< source numbers that take part
    size_t weights = 0;            ///< where their weights begin
  };
  std::vector<Span> spans;  ///< one for each target number
  std::vector<float> weights;

  ResizeWeights(int64_t source, int64_t target, bool mirrored = false) : spans(static_cast<size_t>(target)) {
    const double scale = static_cast<double>(source) / static_cast<double>(target), support = std::max(1.0, scale);
    for (int64_t i = 0; i < target; ++i) {
      const double centre = (static_cast<double>(i) + 0.5) * scale;
      const auto first = std::max<int64_t>(0, std::lround(centre - support));
      const auto last = std::min<int64_t>(source, std::lround(centre + support));  // exclusive
      Span& span = spans[static_cast<size_t>(mirrored ? target - 1 - i : i)];
      span = {first, last - first, weights.size()};
      double sum = 0;
      for (int64_t j = first; j < last; ++j) {
        const double weight = std::max(0.0, 1 - std::abs(static_cast<double>(j) + 0.5 - centre) / support);
        weights.push_back(static_cast<float>(weight));
        sum += weight;
      }
      for (size_t w = span.weights; w < weights.size(); ++w) weights[w] = static_cast<float>(weights[w] / sum);
    }
  }
};

/// The crop of a image as (3, side, side) floats, resized, flipped and normalised. Throws std::invalid_argument for a
/// crop that is not inside the image, a side below 1, or `out` of another size.
inline void resize_normalised(const Picture& image, const Crop& crop, int64_t side, const Normalisation& normal,
                              std::span<float> out) {
  if (side < 1 || out.size() != static_cast<size_t>(3 * side * side))
    throw std::invalid_argument(
        "resize_normalised: side must be at least 1 and the result have 3 * side * side numbers");
  if (crop.height < 1 || crop.width < 1 || crop.top < 0 || crop.left < 0 || crop.top + crop.height > image.height ||
      crop.left + crop.width > image.width)
    throw std::invalid_argument("resize_normalised: the crop is not inside the image");
  const ResizeWeights across(crop.width, side, crop.flip), down(crop.height, side);
  const size_t plane = static_cast<size_t>(side * side);
  std::array<float, 3> factor{};
  for (size_t c = 0; c < 3; ++c) {
    factor[c] = 1 / (255 * normal.deviation[c]);
    std::fill_n(out.begin() + static_cast<int64_t>(c * plane), plane, -normal.mean[c] / normal.deviation[c]);
  }

  // The compiler's vectors: all channels of a pixel at once. The fourth number belongs to the next pixel and comes to
  // nothing.
  using Pixel [[gnu::vector_size(16)]] = float;
  std::vector<float> numbers(
      static_cast<size_t>(3 * crop.width + 1));           // a row of the crop; one more, for the last pixel's fourth
  std::vector<float> row(static_cast<size_t>(3 * side));  // (3, side)
  int64_t first_y = 0;                                    // the first row of the result that is not finished
  for (int64_t v = 0; v < crop.height; ++v) {
    const uint8_t* source = image.pixels.data() + ((crop.top + v) * image.width + crop.left) * 3;
    std::copy_n(source, 3 * crop.width, numbers.begin());
    for (size_t x = 0; x < static_cast<size_t>(side); ++x) {
      const auto& span = across.spans[x];
      const float* weight = across.weights.data() + span.weights;
      const float* from = numbers.data() + 3 * span.first;
      Pixel sum{};
      for (int64_t i = 0; i < span.count; ++i) {
        Pixel pixel;
        std::memcpy(&pixel, from + 3 * i, sizeof pixel);
        sum += pixel * weight[i];
      }
      for (size_t c = 0; c < 3; ++c) row[c * static_cast<size_t>(side) + x] = sum[c] * factor[c];
    }
    while (first_y < side &&
           down.spans[static_cast<size_t>(first_y)].first + down.spans[static_cast<size_t>(first_y)].count <= v)
      ++first_y;
    for (int64_t y = first_y; y < side && down.spans[static_cast<size_t>(y)].first <= v; ++y) {
      const auto& span = down.spans[static_cast<size_t>(y)];
      const float weight = down.weights[span.weights + static_cast<size_t>(v - span.first)];
      for (size_t c = 0; c < 3; ++c) {
        float* target = out.data() + c * plane + static_cast<size_t>(y * side);
        const float* from = row.data() + c * static_cast<size_t>(side);
        for (int64_t x = 0; x < side; ++x) target[x] += weight * from[x];
      }
    }
  }
}

}  // namespace tenfold::inline lesson_10
