#pragma once
// What a graph should bring, from the baseline's step: the host's time for launches goes, the device's stays.

#include <algorithm>
#include <cstdint>

#include "batch_training.h"
#include "common/harness/lesson.h"
#include "common/measure/changed_step.h"

namespace tenfold::inline lesson_25 {

/// What the host needs for a step. Its regions leave little out.
inline double host_seconds(const Counted& baseline) {
  double sum = 0;
  for (const char* const name : {"data", "loss", "optimizer"}) sum += baseline.region(name).host_seconds;
  return sum;
}

/// The shortest of 249,810 additions in a profile of a GPU (docs/dry_gpu.md). Small kernels take longer than their
/// bytes.
constexpr double kShortestKernelSeconds = 1.9e-6;

/// A step takes the longer of the host's time and the device's. Where the host is the slower one, the device's is not
/// measured, since it waits in between; then it is at least what its products, its bytes and its operators take.
inline double device_seconds(const Counted& baseline) {
  const Region& whole = baseline.whole;
  // Not all of the step: gradients are dropped between the regions, and a host that waits does so within them.
  if (host_seconds(baseline) < 0.8 * whole.seconds) return whole.seconds;
  return std::min(whole.seconds, std::max({whole.flops / baseline.ceiling("cuda_flops_fp32"),
                                           whole.operator_bytes / baseline.ceiling("cuda_copy_bytes_per_s"),
                                           static_cast<double>(whole.operators) * kShortestKernelSeconds}));
}

/// With so many launches in the place of the host's work on some regions.
inline double speed_without(const Counted& baseline, double removed_seconds, int64_t launches) {
  const double host = host_seconds(baseline) - removed_seconds +
                      static_cast<double>(launches) * baseline.ceiling("cuda_launch_seconds");
  return baseline.whole.seconds / std::max(host, device_seconds(baseline));
}

/// A batch more, all the time: its buffers. The batch itself is gone before the step begins.
inline Prediction copied_batch(const Counted& baseline) {
  const Region& data = baseline.region("data");
  Prediction prediction;
  // On a GPU the case is judged by what the allocator reserves, which no count of a step's bytes tells.
  if (baseline.device.is_cpu()) {
    prediction.peak_bytes =
        std::max(baseline.peak_bytes, baseline.resting_bytes + data.largest_peak_bytes + data.retained_bytes);
  }
  const AddedWork two_copies{.operators = 2, .bytes = static_cast<double>(data.retained_bytes)};
  prediction.speed_ratio = speed_with(baseline, seconds_of(two_copies, baseline));
  return prediction;
}

/// What is left of the host's time: the batch, two copies into the buffers, and one launch.
inline Prediction one_launch(const Counted& baseline) {
  const double removed = host_seconds(baseline) - baseline.region("data").host_seconds;
  return {.speed_ratio = speed_without(baseline, removed, 3)};
}

/// One launch in the place of the update's. Gradients stay: one launch zeroes all, and each is added to by one more. Of
/// the MLP, which has a weight and a bias in each layer.
inline Prediction update_in_one_launch(const Counted& baseline) {
  return {.speed_ratio =
              speed_without(baseline, baseline.region("optimizer").host_seconds, 2 + 2 * baseline.get(mlp::kLayers))};
}

}  // namespace tenfold::inline lesson_25
