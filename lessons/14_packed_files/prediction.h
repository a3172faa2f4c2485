#pragma once
// What lesson 14's techniques should do: the baseline's time in "read" and "decode" leaves the step.

#include "common/harness/lesson.h"
#include "stored_images.h"

namespace tenfold::inline lesson_14 {

inline int64_t most_bytes(const Trial& trial) { return clipart_most_bytes(trial, trial.get(kSide)); }

/// A view costs nothing: what the baseline spends on reading files goes.
inline Prediction no_files(const Counted& baseline) {
  return {.speed_ratio = 1 / (1 - baseline.share("read")), .peak_bytes = baseline.peak_bytes};
}

/// And decoding, too.
inline Prediction no_decoding(const Counted& baseline) {
  return {.speed_ratio = 1 / (1 - baseline.share("read") - baseline.share("decode")),
          .peak_bytes = baseline.peak_bytes};
}

}  // namespace tenfold::inline lesson_14
