#pragma once
// What lesson 11's techniques should do: the copy takes the link's other rate, or gathering leaves the step.

#include "common/harness/lesson.h"
#include "common/models/convnet.h"

namespace tenfold::inline lesson_11 {

/// Of the convnet, and the batch as bytes, which are made floats.
inline int64_t most_bytes(const Trial& trial) {
  return convnet_most_bytes(trial) + 28 * 28 * trial.get(convnet::kBatch);
}

/// The copy takes its bytes at the link's rate from page-locked memory; nothing else changes. Both rates are ceilings
/// that `tenfold probe` measured.
inline Prediction faster_copy(const Counted& baseline) {
  const double slow = baseline.ceiling("cuda_h2d_pageable_bytes_per_s");
  const double fast = baseline.ceiling("cuda_h2d_pinned_bytes_per_s");
  const double bytes = static_cast<double>(baseline.get(convnet::kBatch)) * (28 * 28 + sizeof(int64_t));
  const double saved = bytes / slow - bytes / fast;
  return {.speed_ratio = baseline.step_seconds / (baseline.step_seconds - saved)};
}

/// Gathering leaves the step, too, where the baseline's copy is nothing else.
inline Prediction faster_copy_no_gathering(const Counted& baseline) {
  if (baseline.device.is_cuda()) return faster_copy(baseline);
  return {.speed_ratio = 1 / (1 - baseline.share("copy"))};
}

/// The same work without an allocation for each batch, which the allocators' caches make all but free.
inline Prediction same_speed(const Counted&) { return {.speed_ratio = 1}; }

}  // namespace tenfold::inline lesson_11
