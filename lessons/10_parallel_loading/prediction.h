#pragma once
// What overlapping loading with training should bring: lessons 10 and 13.

#include "common/harness/lesson.h"
#include "common/machine/fingerprint.h"
#include "loading_workload.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

namespace tenfold::inline lesson_10 {

/// Of the training step, which has a batch as large as the loader's.
inline int64_t loading_bytes(const Trial& trial) {
  return trial.get(loading::kImages) == "decoded"
             ? step_peak_bytes(convnet_options(trial), trial.get(clipart::kBatch), trial.device)
             : clipart_most_bytes(trial, trial.get(loading::kSide));
}

/// With W workers on C cores a step takes as long as whatever is slowest: training, loading by W, or by C cores all
/// that they do. Loading is the baseline's region "data", training the rest of its step. On a CPU cores do both, and
/// the loader's buffers are all that memory grows by: `prefetch` batches. A GPU trains beside the cores, so that even
/// the loop loads while it does: its step is the longer of both already. And there the buffers are the host's memory.
inline std::function<Prediction(const Counted&)> overlapped(int workers) {
  return [workers](const Counted& baseline) -> Prediction {
    const bool gpu = baseline.device.is_cuda();
    const double loading_share =
        gpu ? baseline.region("data").host_seconds / baseline.whole.seconds : baseline.share("data");
    const double training_share = 1 - baseline.share("data");
    const double on_cores = (gpu ? loading_share : 1) / usable_cores();
    const double slowest = std::max({training_share, loading_share / workers, on_cores});
    if (gpu) return {.speed_ratio = 1 / std::min(1.0, slowest), .peak_bytes = baseline.peak_bytes};
    const double image_bytes = baseline.get(loading::kImages) == "decoded"
                                   ? 28 * 28
                                   : 3 * 4 * std::pow(static_cast<double>(baseline.get(loading::kSide)), 2);
    const double batch_bytes = static_cast<double>(baseline.get(clipart::kBatch)) * (image_bytes + sizeof(int64_t));
    const auto prefetch = static_cast<double>(baseline.get(loading::kPrefetch));
    return {.speed_ratio = 1 / slowest,
            .peak_bytes = baseline.peak_bytes + static_cast<int64_t>(prefetch * batch_bytes)};
  };
}

}  // namespace tenfold::inline lesson_10
