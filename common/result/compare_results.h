#pragma once
// Results of two machines, commits or days side by side: which rows are the same measurement, and what their ratio is.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/result/compare_notes.h"
#include "common/result/result.h"
#include "common/result/statistics.h"

namespace tenfold {

/// One row of both sides: B relative to A.
struct ComparedRow {
  std::string identity, lesson, case_name, variant;
  bool baseline = false;
  /// Items per second of B over A. Runs on two machines share no rounds, so nothing can be paired: each side gets the
  /// order-statistic interval of its own median at sqrt(95 %), and the ends are divided crosswise. Both intervals hold
  /// together with at least 95 %. It speaks of the rounds that were recorded; how much another run on another day would
  /// differ is not in it, so a claim also has to clear both sides' A/A noise.
  std::optional<Interval> throughput;         ///< none where crowded, nor of dry GPUs where no time was modelled
  Speed throughput_label = Speed::undecided;  ///< FASTER: B is, by more than 1 % and the noise; SAME within 2 %
  /// The technique's speed ratio on B over the same on A, the verdicts' ends divided crosswise: at least 90 %. Absent
  /// for baselines.
  std::optional<Interval> gain;
  /// Of a training: final quality of B less A's, seed by seed; Student's interval. Then there is no throughput.
  std::optional<Interval> quality;
  Metric metric;  ///< of it
  /// B's items per second on each of its ranks or threads over A's: the throughput over how many times as many of them
  /// B has. Only across those; of a baseline not across ranks, which it need not use.
  std::optional<Interval> efficiency;
  /// Across ranks: "strong", the same batch on all of them together, or "weak", the same on each. Else empty.
  std::string scaling;
  bool modelled = false;  ///< both are of GPUs that are not there, and so is the throughput
  bool crowded = false;   ///< more ranks than cores take turns on a side, so that its times are no speed
  std::optional<int64_t> peak_a, peak_b;  ///< bytes
  std::string across_a, across_b;         ///< the values of the part that rows were joined across; else empty
  std::string bound_a, bound_b;           ///< the largest part of the step, "device 90 %"; empty without a split
  SpeedResult speed_a, speed_b;           ///< the verdicts on either side
};

struct RefusedRow {
  std::string row;     ///< lesson, case, variant
  std::string reason;  ///< which part differs, or that the other side lacks it
};

struct Comparison {
  std::vector<ComparedRow> rows;
  std::vector<NotedRow> noted;  ///< of surveys, and of other rows that are alike; none across a part
  std::vector<RefusedRow> refused;
};

/// The parts of the identity that rows may be joined across, one at a time.
inline constexpr std::array<const char*, 5> kAcross = {"ranks", "threads", "device", "size", "dtype"};

/// Joins by row_identity. Of trainings the seeds that both sides have are paired. A row whose identity has no partner
/// is refused and says which part differs from the nearest row of the other side; so is a row that occurs twice on one
/// side, was not measured, or is not ok. Of surveys the numbers that they noted are compared, which `across` refuses:
/// it names one part of kAcross in which joined rows differ, with what follows from it (ranks bring their mesh and
/// backend, a device its backend, a size its settings); all else must be equal. Across ranks a step's items must be
/// equal, too, or grow as the ranks do. Rates are items per second, so a size that does more for an item is slower by
/// that.
Comparison compare_results(const std::vector<Result>& a, const std::vector<Result>& b, const std::string& across = "");

/// Rows of the same results and machine that differ in the part `across`, one of kAcross: each against the first that
/// can be compared, of the fewest ranks or threads, else in the order of the results.
Comparison compare_within(const std::vector<Result>& results, const std::string& across);

/// Interval of median(b) / median(a) for independent samples, at least 95 %; coverage 0 when either side has too few.
/// Throws std::invalid_argument on an empty side or a value that is not positive.
Interval independent_ratio(const std::vector<double>& a, const std::vector<double>& b);

/// "device 90 %", the part that takes most of a step; empty when nothing was recorded.
std::string bound_of(const std::optional<Split>& split);

}  // namespace tenfold
