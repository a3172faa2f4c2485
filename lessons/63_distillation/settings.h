#pragma once
// Settings of lesson 63, and the sizes that its parts have.

#include <cstdint>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/convnet.h"
#include "distillation.h"

namespace tenfold::inline lesson_63 {

inline constexpr Setting<int64_t> kImages{"images", {1024, 16384, 60000}, "that the student trains on"};
inline constexpr Setting<int64_t> kPool{"pool", {1024, 16384, 60000}, "images that the teacher's logits are kept of"};
inline constexpr Setting<int64_t> kUpdates{"updates", 2, "updates of the student's training"};
inline constexpr Setting<int64_t> kTeacherUpdates{"teacher_updates", 2, "of the teacher, for each of the student's"};
inline constexpr Setting<int64_t> kTeacherChannels{
    "teacher_channels", {32, 64, 128}, "output channels of the teacher's first convolution"};
inline constexpr Setting<double> kTemperature{"temperature", 4, "that logits are divided by"};
inline constexpr Setting<double> kAlpha{"alpha", 0.9, "weight of the teacher's answers, of 1"};

inline constexpr int64_t kTrainImages = 60000;
inline constexpr int64_t kClasses = 10;

inline DistillationOptions distillation_options(const Trial& trial) {
  return {.temperature = trial.get(kTemperature), .alpha = trial.get(kAlpha)};
}

/// Bytes of a cache of these logits.
inline int64_t cache_bytes(int64_t samples, torch::ScalarType type) {
  return samples * kClasses * static_cast<int64_t>(c10::elementSize(type));
}

}  // namespace tenfold::inline lesson_63
