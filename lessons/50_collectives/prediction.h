#pragma once
// What an all-reduce of our own should change in a step whose gradients are averaged by c10d's.

#include <algorithm>
#include <cstdint>
#include <functional>

#include "common/harness/lesson.h"
#include "message_costs.h"

namespace tenfold::inline lesson_50 {

/// A link between two ranks over Gloo, from what the probe measured of c10d's all-reduce on two of them: two steps, in
/// which a rank sends the tensor's bytes once and receives as many.
inline LinkModel probed_link(const Counted& baseline) {
  return {.latency = baseline.ceiling("cpu_all_reduce_seconds") / 2,
          .seconds_per_byte = 1 / (2 * baseline.ceiling("cpu_all_reduce_bytes_per_s"))};
}

/// All that differs is the all-reduce: c10d's over Gloo is a ring, too. Its bytes follow from the rank's place, its
/// scratch memory is there after backward(), when no activations are.
inline Prediction predict_exchange(Algorithm algorithm, const Counted& baseline) {
  if (baseline.ranks == 1) return {};
  const int64_t bytes = baseline.gradient_bytes, numbers = bytes / 4;
  const int64_t scratch = scratch_bytes(algorithm, baseline.ranks, numbers);
  Prediction prediction{.peak_bytes = std::max(baseline.peak_bytes, baseline.resting_bytes + scratch),
                        .sent_bytes = busiest(algorithm, baseline.ranks, numbers).sent_bytes};
  const LinkModel link = probed_link(baseline);
  const auto seconds = [&](Algorithm of) {
    return steps_of(of, baseline.ranks, static_cast<double>(bytes)).seconds(link);
  };
  // What c10d's takes cannot be more than what is left of the measured step.
  const double rest = std::max(0.0, baseline.step_seconds - seconds(Algorithm::ring));
  prediction.speed_ratio = (rest + seconds(Algorithm::ring)) / (rest + seconds(algorithm));
  return prediction;
}

inline std::function<Prediction(const Counted&)> predict(Algorithm algorithm) {
  return [algorithm](const Counted& baseline) { return predict_exchange(algorithm, baseline); };
}

}  // namespace tenfold::inline lesson_50
