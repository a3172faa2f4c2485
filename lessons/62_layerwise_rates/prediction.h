#pragma once
// What a step needs whose first stages are frozen.

#include <algorithm>
#include <cstdint>

#include "common/harness/lesson.h"
#include "common/models/convnet.h"
#include "settings.h"

namespace tenfold::inline lesson_62 {

/// Multiplications of a stage's forward pass for each image, and of one gradient of its weights, or of its input.
inline double stage_work(int64_t stage, int64_t channels) {
  constexpr double kPixels = 28 * 28;
  const auto c = static_cast<double>(channels);
  if (stage == 0) return 9 * c * kPixels;
  if (stage == 1) return 9 * c * 2 * c * kPixels / 4;
  return 2 * c * kPixels / 16 * 10;
}

/// Bytes of a stage's parameters.
inline int64_t stage_bytes(int64_t stage, int64_t channels) {
  if (stage == 0) return 4 * channels * 10;
  if (stage == 1) return 4 * 2 * channels * (9 * channels + 1);
  return 4 * 10 * (2 * channels * 49 + 1);
}

/// Backward's work: a gradient of the weights for each stage that trains, and one of the input for each that trains or
/// lies above one that does; the images need none.
inline double backward_work(int64_t channels, int64_t frozen, bool above) {
  double work = 0;
  bool below = false;  // a stage below this one trains
  for (int64_t i = 0; i < 3; ++i) {
    const bool trains = stage_trains(i, frozen, above);
    if (trains) work += stage_work(i, channels);
    if (below) work += stage_work(i, channels);
    below = below || trains;
  }
  return work;
}

/// Speed: backward is shorter by the work that is left out. Peak: frozen stages have no gradient and no momentum. With
/// both convolutions frozen nothing of theirs is kept for backward. The highest moment is that of the pooling: the
/// first ReLU's result, the second convolution's and the second ReLU's of half its size, what is pooled, and its
/// indices of 64 bits. On a CPU it is that of the second convolution, whose input oneDNN has once more in blocks.
inline Prediction predict_frozen(const Counted& all) {
  const int64_t frozen = all.get(kFrozen), channels = all.get(convnet::kChannels), batch = all.get(convnet::kBatch);
  const bool above = all.get(kFrozenAbove);
  if (frozen == 0) return {};
  const double left = backward_work(channels, frozen, above) / backward_work(channels, 0, false);
  Prediction prediction{.speed_ratio = 1 / (1 - all.share("backward") * (1 - left))};
  if (above) {
    int64_t kept = 0;  // momentum, and the head's gradient, which are there at the peak
    for (int64_t i = 0; i < 3; ++i) kept += stage_trains(i, frozen, above) ? 0 : stage_bytes(i, channels);
    prediction.peak_bytes = all.peak_bytes - 2 * kept;
  } else if (frozen == 2) {
    int64_t weights = 0;
    for (int64_t i = 0; i < 3; ++i) weights += stage_bytes(i, channels);
    const int64_t images = fashion_batch_bytes(batch), output = 4 * batch * channels * 28 * 28;
    const int64_t activations = all.device.is_cpu() ? output * 5 / 2 : output * 19 / 8;
    prediction.peak_bytes = weights + 2 * stage_bytes(2, channels) + images + activations;
  }
  return prediction;
}

}  // namespace tenfold::inline lesson_62
