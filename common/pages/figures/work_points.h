#pragma once
// Where measured steps lie on a roofline: their arithmetic for each byte, and the rate that they reached.

#include <optional>
#include <vector>

#include "common/pages/figures/svg.h"
#include "common/result/result.h"

namespace tenfold {

/// A variant whose items are FLOP notes under this name how many there are for each byte.
inline constexpr const char* kIntensityNote = "arithmetic intensity";

/// Steps that ran on one rank of a CPU.
struct WorkPoints {
  std::vector<WorkPoint> points;  ///< of baselines whose arithmetic was counted, and of variants that noted theirs
  size_t left_out = 0;            ///< comparisons of which there is no point
};
WorkPoints work_points(const std::vector<Result>& results);

/// What a machine reached at most.
struct WorkRoof {
  double flops_per_s = 0, bytes_per_s = 0;
};
/// By one core, or by all. Nothing where it was not measured.
std::optional<WorkRoof> work_roof(const Machine& machine, bool all_cores = false);

}  // namespace tenfold
