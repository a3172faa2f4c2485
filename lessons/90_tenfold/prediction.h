#pragma once
// What the levers should bring together: the parts of the first pipeline's step that they shorten, on the cores that
// they use.

#include <algorithm>

#include "common/harness/lesson.h"
#include "common/machine/fingerprint.h"
#include "levers.h"
#include "settings.h"

namespace tenfold::inline lesson_90 {

/// Amdahl's law, part by part: what is packed needs no decoding, what is fused half of the optimizer's time, and
/// workers and ranks spread what is left over the cores. What sixteen bits bring depends on what the hardware
/// does with them, and what packed texts save on lesson 15's arithmetic: neither is predicted here, nor is a GPU.
inline std::function<Prediction(const Counted&)> by_parts(const Levers& levers) {
  return [levers](const Counted& naive) -> Prediction {
    if (naive.device.is_cuda() || levers.sixteen_bits) return {};
    const bool pictures = naive.workload == pictures_workload;
    if (levers.packed && !pictures) return {};
    const double data = naive.share("data");
    double loading = data, training = 1 - data;
    if (levers.packed && pictures) loading -= naive.share("read and decode");
    if (levers.fused) training -= naive.share("optimizer") / 2;
    // Loading is divided by the cores; arithmetic gains what all cores gain on one, as the probe measured it.
    const double arithmetic = naive.ceiling("cpu_all_cores_flops_per_s") / naive.ceiling("cpu_flops_per_s");
    const double cores = usable_cores();
    const double ranks = levers.ranks ? naive.ranks : 1;
    double step = loading + training;
    if (ranks > 1) {
      step = loading / std::min(cores, ranks) + training / std::min(arithmetic, ranks);
    } else if (levers.workers && pictures) {
      step = std::max(
          {training, loading / static_cast<double>(naive.get(kWorkers)), loading / cores + training / arithmetic});
    }
    return {.speed_ratio = 1 / step};
  };
}

}  // namespace tenfold::inline lesson_90
