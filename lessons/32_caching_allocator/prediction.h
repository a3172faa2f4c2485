#pragma once
// What a round should cost, from a counted round of batches as they come.

#include "batch_lengths.h"
#include "common/harness/lesson.h"

namespace tenfold::inline lesson_32 {

/// Where lengths differ a GPU's memory is judged by what is reserved, and that depends on which blocks happen to be
/// cached: no formula says it.
inline bool is_judged_by_reserved(const Counted& baseline) {
  return baseline.device.is_cuda() && baseline.get(kOrder) != "equal";
}

/// The same tensors: the same peak.
inline Prediction predict_same_tensors(const Counted& baseline) {
  if (is_judged_by_reserved(baseline)) return {};
  return {.peak_bytes = baseline.peak_bytes};
}

/// Expandable segments leave no gaps: they reserve what the tensors need. That is to within the 20 MiB by which they
/// grow (c10/core/AllocatorConfig.h, large_segment_size).
inline Prediction predict_expandable(const Counted& baseline) { return {.peak_bytes = baseline.peak_bytes}; }

/// Rounded lengths: everything but the update and the dispatch of operators grows with the rows, and so does everything
/// that is alive at the longest batch but the model states.
inline Prediction predict_rounded(const Counted& baseline) {
  const RoundTokens tokens = tokens_of_round(baseline);
  Prediction prediction;
  if (!is_judged_by_reserved(baseline)) {
    const auto states = static_cast<double>(baseline.state_bytes());
    const double growth = static_cast<double>(tokens.longest_padded) / static_cast<double>(tokens.longest);
    prediction.peak_bytes = static_cast<int64_t>(states + growth * (static_cast<double>(baseline.peak_bytes) - states));
  }
  if (!baseline.device.is_cpu()) return prediction;
  const double dispatch = static_cast<double>(baseline.whole.operators) * baseline.ceiling("cpu_new_tensor_op_seconds");
  const double fixed = baseline.share("update") * baseline.step_seconds + dispatch;
  const double rows = static_cast<double>(tokens.padded) / static_cast<double>(tokens.real);
  prediction.speed_ratio = baseline.step_seconds / (fixed + rows * (baseline.step_seconds - fixed));
  return prediction;
}

}  // namespace tenfold::inline lesson_32
