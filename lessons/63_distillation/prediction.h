#pragma once
// What kept logits should do to a step that asks the teacher each time; and the most that such a step needs.

#include <algorithm>
#include <cstdint>

#include "common/harness/lesson.h"
#include "common/models/convnet.h"
#include "settings.h"

namespace tenfold::inline lesson_63 {

/// Speed: the teacher's forward pass is left out; a row that is looked up costs next to nothing.
/// Peak: the student's step, as the workload's formula has it, and the cache; the teacher is gone with its activations.
inline Prediction predict_cache(const Counted& asking, torch::ScalarType type) {
  const int64_t batch = asking.get(convnet::kBatch);
  const int64_t rows = batch * (4 * kClasses + 8);  // of the batch, and the numbers that they are found by
  const int64_t student = step_peak_bytes({.channels = asking.get(convnet::kChannels)}, batch, asking.device);
  return {.speed_ratio = 1 / (1 - asking.share("teacher")),
          .peak_bytes = student + cache_bytes(asking.get(kPool), type) + rows};
}
inline Prediction predict_cached(const Counted& asking) { return predict_cache(asking, torch::kFloat); }
inline Prediction predict_cached_in_16_bits(const Counted& asking) { return predict_cache(asking, torch::kHalf); }

/// Of a step that asks the teacher: the student's own, or the teacher's forward pass while the student's parameters,
/// gradients and momentum rest. Its first ReLU has its input and its result alive; on a CPU its second convolution
/// that result, once more in blocks, and half of it behind.
inline int64_t distillation_most_bytes(const Trial& trial) {
  const ConvNetOptions student = convnet_options(trial);
  const int64_t batch = trial.get(convnet::kBatch), channels = trial.get(kTeacherChannels);
  const auto weights = [](int64_t c) { return 4 * (10 * c + 2 * c * (9 * c + 1) + (2 * c * 49 + 1) * kClasses); };
  const int64_t pixels = student.side * student.side, images = batch * (4 * pixels + 16);
  const int64_t output = 4 * batch * channels * pixels;
  const int64_t asking = 3 * weights(student.channels) + images + output * 5 / 2;
  return weights(channels) + batch * (4 * kClasses + 8) +
         std::max(step_peak_bytes(student, batch, trial.device), asking);
}

}  // namespace tenfold::inline lesson_63
