#pragma once
// What the roofline says: a step takes as long as its arithmetic at the rate of arithmetic, or as its bytes at the rate
// of memory, whichever is longer. Both rates were measured by `tenfold probe`: matmuls, and copies of large arrays.

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "common/harness/lesson.h"
#include "common/machine/fingerprint.h"
#include "common/models/mlp.h"
#include "repeated_fma.h"

namespace tenfold::inline lesson_02 {

inline constexpr Setting<int64_t> kWeights{"weights", int64_t{1} << 25,
                                           "that are updated; each has a place in two arrays"};
inline constexpr Setting<int64_t> kUpdates{"updates", 1, "of each weight between its load and its store, 2 FLOP each"};
inline constexpr Setting<int64_t> kPasses{"passes", 2, "over all weights in a step; even, there and back"};
inline constexpr Setting<int64_t> kCores{"cores", 0, "that the threads run on; 0: all that the process may use"};

/// Loads and stores a float, and computes 2 FLOP for each update.
inline double intensity(int64_t updates) { return 2.0 * static_cast<double>(updates) / 8; }

inline int64_t weights_most_bytes(const Trial& trial) {
  constexpr int64_t kScalars = 1024;  // the loss and what it is made of
  return 2 * 4 * trial.get(kWeights) + kScalars;
}

/// What a core computes and moves in a second, and all cores together.
struct Roofs {
  double flops, bytes;
};
inline Roofs one_core(const Counted& baseline) {
  return {baseline.ceiling("cpu_flops_per_s"), baseline.ceiling("cpu_copy_bytes_per_s")};
}
inline Roofs all_cores(const Counted& baseline) {
  return {baseline.ceiling("cpu_all_cores_flops_per_s"), baseline.ceiling("cpu_all_cores_copy_bytes_per_s")};
}

/// Weights that are updated by repeated FMAs: what a step does where it trains no network.
inline const Workload weights_workload{
    .name = "weights", .settings = {kWeights, kUpdates, kPasses}, .most_bytes = weights_most_bytes};

inline bool trains_weights(const Counted& baseline) { return baseline.workload == weights_workload; }

/// Nothing where memory would be the bound, but the arrays lie in a core's own cache: its rate is no ceiling that is
/// measured.
inline std::optional<double> seconds_under(const Roofs& roofs, const Counted& baseline) {
  const auto weights = static_cast<double>(baseline.get(kWeights));
  const double moved = 8 * weights * static_cast<double>(baseline.get(kPasses));
  const double arithmetic = moved * intensity(baseline.get(kUpdates)) / roofs.flops, memory = moved / roofs.bytes;
  if (memory > arithmetic && 8 * weights <= static_cast<double>(sysconf(_SC_LEVEL2_CACHE_SIZE))) return std::nullopt;
  return std::max(arithmetic, memory);
}

inline Prediction ratio_to(const std::optional<double>& seconds, const Counted& baseline) {
  if (!seconds) return {};
  return {.speed_ratio = baseline.step_seconds / *seconds};
}

inline Prediction by_simd(const Counted& baseline) {
  return ratio_to(seconds_under(one_core(baseline), baseline), baseline);
}

/// Scalar code computes one lane of the vector registers. A training step is vector code already; the mlp's tensors lie
/// in a core's cache, so that only the arithmetic of its matmuls would gain by more cores.
inline Prediction by_threads(const Counted& baseline) {
  const Roofs one = one_core(baseline), all = all_cores(baseline);
  if (baseline.get(kCores) != 0) return {};  // the ceilings are those of one core and of all
  if (trains_weights(baseline)) {
    const auto lanes = static_cast<double>(ways_to_update().lanes);
    return ratio_to(seconds_under({all.flops / lanes, all.bytes}, baseline), baseline);
  }
  const double saved = baseline.whole.flops / one.flops - baseline.whole.flops / all.flops;
  return {.speed_ratio = baseline.step_seconds / (baseline.step_seconds - saved)};
}

inline Prediction by_simd_and_threads(const Counted& baseline) {
  if (baseline.get(kCores) != 0) return {};
  return ratio_to(seconds_under(all_cores(baseline), baseline), baseline);
}

/// One FMA in flight where eight could be.
inline Prediction by_one_chain(const Counted&) { return {.speed_ratio = 1.0 / static_cast<double>(kChains)}; }

}  // namespace tenfold::inline lesson_02
