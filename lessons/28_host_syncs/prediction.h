#pragma once
// What waiting, and gradients that stay, should cost a training step.

#include <algorithm>
#include <cstdint>

#include "common/harness/lesson.h"
#include "common/measure/changed_step.h"
#include "logged_training.h"

namespace tenfold::inline lesson_28 {

/// Without a wait the host queues work while the device does what was queued before: a step takes the longer of the
/// host's time and the device's.
///
/// A wait in each step drains the queue. The host makes the next batch while the device has nothing to do; then both
/// work again, the host a little ahead. With h and k the host's and the device's time of a step, and d the host's for
/// the batch, a step of max(h, k) becomes d + max(h - d, k), and two launches: that of the copy which is waited for,
/// and that of the operator which ends the device's idleness. k is the time between events on the stream, without those
/// around the batch: where the device waits for the host that is more than it works, and at most h - d. So the sum
/// is then h, what a step takes anyway, and only the launches are predicted. On a CPU the host does the work itself:
/// there is nothing to wait for.
inline Prediction waits_every_step(const Counted& baseline) {
  Prediction prediction{.peak_bytes = baseline.peak_bytes};
  if (baseline.device.is_cpu()) {
    prediction.speed_ratio = 1;
    return prediction;
  }
  const double step = baseline.step_seconds;
  const Region &data = baseline.region("data"), &loss = baseline.region("loss"),
               &optimizer = baseline.region("optimizer");
  const double host = loss.host_seconds + optimizer.host_seconds,
               batch = data.host_seconds;  // the batch is in the loss
  const double device = loss.seconds - data.seconds + optimizer.seconds;
  const double idle = std::max(step, batch + std::max(host - batch, device)) - step;
  prediction.speed_ratio = step / (step + idle + 2 * baseline.ceiling("cuda_launch_seconds"));
  return prediction;
}

/// The same; but formatting a line is work that no count of the baseline tells, and where nobody waits it is all.
inline Prediction prints_every_step(const Counted& baseline) {
  Prediction prediction = waits_every_step(baseline);
  if (baseline.device.is_cpu()) prediction.speed_ratio.reset();
  return prediction;
}

/// A few operators on one number; the host goes on.
inline Prediction never_waits(const Counted& baseline) { return {.speed_ratio = 1, .peak_bytes = baseline.peak_bytes}; }

/// Gradients are alive while the loss and the new gradients are computed. Each tensor of them costs two more
/// operators, one that writes zeros and one that adds, and saves one that launches nothing: the detach by which a new
/// gradient is taken over. They move four times its bytes: a write, two reads, a write.
inline Prediction keeps_gradients(const Counted& baseline) {
  Prediction prediction;
  prediction.peak_bytes =
      std::max(baseline.peak_bytes, baseline.resting_bytes + baseline.region("loss").largest_peak_bytes);
  const int64_t operators = (baseline.device.is_cpu() ? 1 : 2) * parameter_tensors(baseline);
  const AddedWork added{.operators = static_cast<double>(operators),
                        .bytes = 4 * static_cast<double>(baseline.parameter_bytes)};
  prediction.speed_ratio = speed_with(baseline, seconds_of(added, baseline));
  return prediction;
}

}  // namespace tenfold::inline lesson_28
