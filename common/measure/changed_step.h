#pragma once
// What a change of the baseline's step does to its peak and to its time, for predictions.

#include <algorithm>
#include <cstdint>

#include "common/measure/counted.h"

namespace tenfold {

/// Peak bytes of a step with another update, whose optimizer state is `saved` bytes smaller and which has `working`
/// bytes of its own at a time. The peak is in the loss and its backward, region "loss", where there is no update; or in
/// the update, where all gradients are. Throws std::invalid_argument without that region.
inline int64_t peak_with_update(const Counted& baseline, int64_t saved, int64_t working) {
  return std::max(baseline.state_bytes() - saved + baseline.region("loss").largest_peak_bytes,
                  baseline.resting_bytes - saved + working);
}

/// Small operators that a step has besides the baseline's, and the bytes that they move.
struct AddedWork {
  double operators = 0;  ///< on a GPU launches
  double bytes = 0;      ///< read and written
};

/// Seconds that these add, by the device's ceilings. On a CPU one after the other; on a GPU the host launches while the
/// device moves, and the longer of both counts. NaN where one of the two was not probed.
inline double seconds_of(const AddedWork& added, const Counted& baseline) {
  const bool cpu = baseline.device.is_cpu();
  const double dispatch = added.operators * baseline.ceiling(cpu ? "cpu_op_seconds" : "cuda_launch_seconds");
  const double moving = added.bytes / baseline.ceiling(cpu ? "cpu_copy_bytes_per_s" : "cuda_copy_bytes_per_s");
  return cpu ? dispatch + moving : std::max(dispatch, moving);
}

/// The speed, over the baseline's, of a step that takes so much longer.
inline double speed_with(const Counted& baseline, double added_seconds) {
  return baseline.step_seconds / (baseline.step_seconds + added_seconds);
}

}  // namespace tenfold
