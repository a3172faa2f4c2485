#pragma once
// What lesson 12's techniques should do: a step takes the longer of copy and compute instead of their sum.

#include "common/harness/lesson.h"
#include "thumbnail_training.h"

#include <algorithm>
#include <cstdint>

namespace tenfold::inline lesson_12 {

/// Bytes of a batch as it is copied.
inline int64_t copied_bytes(int64_t batch, int64_t enlarge) {
  const int64_t pixels = 28 * enlarge;
  return batch * (pixels * pixels + static_cast<int64_t>(sizeof(int64_t)));
}

/// Of the convnet, and the batch as it is copied.
inline int64_t most_bytes(const Trial& trial) {
  return convnet_most_bytes(trial) + copied_bytes(trial.get(convnet::kBatch), trial.get(kEnlarge));
}

/// The longer of copy and compute instead of their sum, at the measured rate of copies; and a second buffer.
inline Prediction longer_of_both(const Counted& baseline) {
  const int64_t added = copied_bytes(baseline.get(convnet::kBatch), baseline.get(kEnlarge));
  const auto bytes = static_cast<double>(added);
  Prediction prediction;
  prediction.peak_bytes = baseline.peak_bytes + added;
  const double copy = baseline.device.is_cpu()
                          ? 2 * bytes / baseline.ceiling("cpu_copy_bytes_per_s")  // each byte is read and written once
                          : bytes / baseline.ceiling("cuda_h2d_pinned_bytes_per_s");
  const double compute = baseline.step_seconds - copy;
  if (compute > 0) prediction.speed_ratio = baseline.step_seconds / std::max(copy, compute);
  return prediction;
}

/// With one buffer each waits for the other: the sum is still the sum.
inline Prediction still_the_sum(const Counted& baseline) {
  return {.speed_ratio = 1, .peak_bytes = baseline.peak_bytes};
}

}  // namespace tenfold::inline lesson_12
