#pragma once
// What other updates should cost, from a counted step of LibTorch's AdamW.

#include "common/harness/lesson.h"
#include "common/measure/changed_step.h"

namespace tenfold::inline lesson_45 {

/// The denominators of all parameters are live at once.
inline Prediction all_denominators(const Counted& baseline) {
  return {.peak_bytes = peak_with_update(baseline, /*saved=*/0, baseline.parameter_bytes)};
}

/// Nothing but the states. On a CPU an update costs one pass over memory at least: of each parameter four values are
/// read and three written.
inline Prediction in_one_pass(const Counted& baseline) {
  const double pass_seconds =
      7 * static_cast<double>(baseline.parameter_bytes) / baseline.ceiling("cpu_copy_bytes_per_s");
  return {.speed_ratio = 1 / (1 - baseline.share("optimizer") + pass_seconds / baseline.step_seconds),
          .peak_bytes = peak_with_update(baseline, /*saved=*/0, /*working=*/0)};
}

}  // namespace tenfold::inline lesson_45
