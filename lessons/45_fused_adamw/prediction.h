#pragma once
// What other updates should cost, from a counted step of LibTorch's AdamW.

#include <algorithm>
#include <cstdint>

#include "common/harness/lesson.h"

namespace tenfold::inline lesson_45 {

/// Peak bytes with so many bytes of the update's own: while the loss and its gradients are computed, or in the update.
inline int64_t peak_with(const Counted& baseline, int64_t bytes_of_update) {
  return std::max(baseline.state_bytes() + baseline.region("loss").largest_peak_bytes,
                  baseline.resting_bytes + bytes_of_update);
}

/// The denominators of all parameters are live at once.
inline Prediction all_denominators(const Counted& baseline) {
  return {.peak_bytes = peak_with(baseline, baseline.parameter_bytes)};
}

/// Nothing but the states. On a CPU an update costs one pass over memory at least: of each parameter four values are
/// read and three written.
inline Prediction in_one_pass(const Counted& baseline) {
  const double pass_seconds =
      7 * static_cast<double>(baseline.parameter_bytes) / baseline.ceiling("cpu_copy_bytes_per_s");
  return {.speed_ratio = 1 / (1 - baseline.share("optimizer") + pass_seconds / baseline.step_seconds),
          .peak_bytes = peak_with(baseline, 0)};
}

}  // namespace tenfold::inline lesson_45
