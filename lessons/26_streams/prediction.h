#pragma once
// What streams can bring, from the towers' times one after the other: the longest stream instead of the sum, as far as
// the device has room for all of them.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "tower_training.h"

namespace tenfold::inline lesson_26 {

/// How much faster all cores compute than one, as the probe measured it: less than their number where they share units.
inline double speed_of_all_cores(const Counted& baseline) {
  return baseline.ceiling("cpu_all_cores_flops_per_s") / baseline.ceiling("cpu_flops_per_s");
}

/// What the towers take at the least, however many streams there are.
inline double least_seconds(const Counted& baseline, double towers) {
  if (baseline.device.is_cpu()) {
    // An operator that has all cores already leaves nothing for the others.
    return baseline.get(kIntraOp) == 1 ? towers / speed_of_all_cores(baseline) : towers;
  }
  // The arithmetic at the measured rate of large matmuls; the host queues the towers one after the other all the same.
  double host = 0, flops = 0;
  for (const auto& [name, region] : baseline.regions) {
    if (!name.starts_with("tower ")) continue;
    host += region.host_seconds;
    flops += region.flops;
  }
  return std::max(host, flops / baseline.ceiling("cuda_flops_fp32"));
}

/// Tower i runs on stream i % streams. Handing over to the streams and back is not in it: on a GPU microseconds of the
/// host's time, on a CPU what it takes to wake a thread.
inline Prediction longest_stream(const Counted& baseline) {
  const auto towers = static_cast<size_t>(baseline.get(kTowers)), streams = static_cast<size_t>(baseline.get(kStreams));
  std::vector<double> seconds(streams, 0);
  double sum = 0;
  for (size_t i = 0; i < towers; ++i) {
    const double tower = baseline.region("tower " + std::to_string(i)).seconds;
    seconds[i % streams] += tower;
    sum += tower;
  }
  Prediction prediction{.peak_bytes = baseline.peak_bytes};
  const double longest = *std::max_element(seconds.begin(), seconds.end());
  const double together = std::min(sum, std::max(longest, least_seconds(baseline, sum)));
  const double whole = baseline.whole.seconds;
  prediction.speed_ratio = whole / (whole - sum + together);
  return prediction;
}

/// Each half of the batch has all the operators: their number doubles, their arithmetic does not. On a CPU with two
/// cores the forward passes run next to each other; the gradients of one model are added up one after the other. On a
/// GPU no count tells how much of it overlaps.
inline Prediction two_halves(const Counted& baseline) {
  if (!baseline.device.is_cpu()) return {};
  const double step = baseline.step_seconds, together = speed_of_all_cores(baseline);
  if (baseline.get(kHalves) != 0) {
    const double halves = baseline.region("halves").seconds;
    return {.speed_ratio = step / (step - halves + halves / together)};
  }
  const Region& forward = baseline.region("forward");
  // The probe's operator with autograd is dispatched forward and backward.
  const double operators = static_cast<double>(forward.operators), both = baseline.ceiling("cpu_autograd_op_seconds");
  const double dispatch_forward = operators * std::min(both, baseline.ceiling("cpu_new_tensor_op_seconds"));
  const double dispatch_backward = operators * both - dispatch_forward;
  const double half = dispatch_forward + std::max(0.0, forward.seconds - dispatch_forward) / 2;
  return {.speed_ratio = step / (step - forward.seconds + 2 * half / together + dispatch_backward)};
}

}  // namespace tenfold::inline lesson_26
