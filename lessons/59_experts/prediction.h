#pragma once
// What each way to compute a mixture should do to the step of the baseline, in which every expert computes every token.

#include <cstdint>

#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "moe_bytes.h"
#include "settings.h"

namespace tenfold::inline lesson_59 {

/// Of a step of the baseline.
inline int64_t most_bytes(const Trial& trial) { return moe_sizes(trial, Way::every_expert).peak_bytes(); }

/// Seconds of a rank's step. The experts' part of what one process computes goes with the rows that they compute; the
/// rest with the tokens, the optimizer with the parameters. Sorting and moving rows is left out. A collective takes
/// what an all-reduce between two ranks was probed to take; an all-to-all sends half as much.
inline double step_seconds_of(const Counted& baseline, const MoeSizes& of) {
  MoeSizes every = of;
  every.way = Way::every_expert;
  every.ranks = every.expert_ranks = 1;
  const double step = baseline.step_seconds;
  const double data = baseline.share("data") * step, optimizer = baseline.share("optimizer") * step;
  const double blocks = baseline.share("block.forward") * step, head = baseline.share("head.forward") * step;
  const double experts = baseline.share("experts.forward") * step;
  const double scale = (step - data - optimizer) / (blocks + head);  // with the backward
  const double rows = static_cast<double>(of.rows()) / static_cast<double>(every.rows());
  const double compute = scale * ((blocks - experts + head) / static_cast<double>(of.ranks) + experts * rows);
  double sending = 0;
  if (of.ranks > 1) {
    const auto calls = static_cast<double>(1 + of.gpt.layers * of.all_to_all_calls());
    const double bytes =
        static_cast<double>(of.all_reduce_bytes()) + static_cast<double>(of.gpt.layers * of.all_to_all_bytes()) / 2;
    sending =
        calls * baseline.ceiling("cpu_all_reduce_seconds") + bytes / baseline.ceiling("cpu_all_reduce_bytes_per_s");
  }
  return data + compute + sending +
         optimizer * static_cast<double>(of.parameter_bytes()) / static_cast<double>(every.parameter_bytes());
}

inline Prediction predict_way(const Counted& baseline, const MoeSizes& of) {
  Prediction prediction{.peak_bytes = of.peak_bytes()};
  if (of.ranks > 1) prediction.sent_bytes = of.sent_bytes();
  if (of.ranks <= 2) prediction.speed_ratio = baseline.step_seconds / step_seconds_of(baseline, of);
  return prediction;
}

/// In a case on four ranks, two and two have the same experts.
inline int64_t expert_ranks_of(const Counted& baseline) { return baseline.ranks / baseline.get(kDataRanks); }

inline Prediction predict_loop(const Counted& baseline) {
  return predict_way(baseline, moe_sizes(baseline, Way::loop));
}
inline Prediction predict_sorted(const Counted& baseline) {
  return predict_way(baseline, moe_sizes(baseline, Way::sorted));
}
inline Prediction predict_buffers(const Counted& baseline) {
  return predict_way(baseline, moe_sizes(baseline, Way::buffers));
}
inline Prediction predict_expert_parallel(const Counted& baseline) {
  return predict_way(baseline, moe_sizes(baseline, Way::sorted, baseline.ranks, expert_ranks_of(baseline)));
}
inline Prediction predict_spread_buffers(const Counted& baseline) {
  return predict_way(baseline, moe_sizes(baseline, Way::buffers, baseline.ranks, expert_ranks_of(baseline)));
}

}  // namespace tenfold::inline lesson_59
