#pragma once
// What overlapping loading with training should bring: lessons 10 and 13.

#include "common/harness/lesson.h"
#include "loading_workload.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <thread>

namespace tenfold {

/// With W workers on C cores a step takes as long as whatever is slowest: training, loading by W, or all of it by C
/// cores. Loading is the baseline's region "data", training the rest of its step. The loader's buffers are all that
/// memory grows by: `prefetch` batches.
inline std::function<Prediction(const Counted&)> overlapped(int workers) {
  return [workers](const Counted& baseline) -> Prediction {
    const double loading_share = baseline.share("data");
    const double training_share = 1 - loading_share;
    const double cores = std::thread::hardware_concurrency();
    const double image_bytes = baseline.get(loading::kImages) == "decoded"
                                   ? 28 * 28
                                   : 3 * 4 * std::pow(static_cast<double>(baseline.get(loading::kSide)), 2);
    const double batch_bytes = static_cast<double>(baseline.get(clipart::kBatch)) * (image_bytes + sizeof(int64_t));
    const auto prefetch = static_cast<double>(baseline.get(loading::kPrefetch));
    return {.speed_ratio = 1 / std::max({training_share, loading_share / workers, 1 / cores}),
            .peak_bytes = baseline.peak_bytes + static_cast<int64_t>(prefetch * batch_bytes)};
  };
}

}  // namespace tenfold
