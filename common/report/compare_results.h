#pragma once
// Results of two machines, commits or days side by side: which rows are the same measurement, and what their ratio is.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tenfold/result.h>
#include <tenfold/statistics.h>

namespace tenfold {

/// One row of both sides: B relative to A.
struct ComparedRow {
  std::string identity, lesson, case_name, variant;
  bool baseline = false;
  /// Items per second of B over A. Runs on two machines share no rounds, so nothing can be paired: each side gets the
  /// order-statistic interval of its own median at sqrt(95 %), and the ends are divided crosswise. Both intervals hold
  /// together with at least 95 %. It speaks of the rounds that were recorded; how much another run on another day would
  /// differ is not in it, so a claim also has to clear both sides' A/A noise.
  Interval throughput;
  Speed throughput_label = Speed::undecided;  ///< FASTER: B is, by more than 1 % and the noise; SAME within 2 %
  /// The technique's speed ratio on B over the same on A, the verdicts' ends divided crosswise: at least 90 %. Absent for
  /// baselines.
  std::optional<Interval> gain;
  std::string bound_a, bound_b;  ///< the largest part of the step, "device 90 %"; empty without a split
  SpeedResult speed_a, speed_b;  ///< the verdicts on either side
};

struct RefusedRow {
  std::string row;     ///< lesson, case, variant
  std::string reason;  ///< which part differs, or that the other side lacks it
};

struct Comparison {
  std::vector<ComparedRow> rows;
  std::vector<RefusedRow> refused;
};

/// Joins by row_identity. A row whose identity has no partner is refused and says which part differs from the nearest
/// row of the other side; so is a row that occurs twice on one side, was not measured, or is not ok.
Comparison compare_results(const std::vector<Result>& a, const std::vector<Result>& b);

/// Names and values of what row_identity joins, in its order.
std::vector<std::pair<std::string, std::string>> identity_parts(const Result& result, const CaseResult& c, const std::string& variant);

/// Interval of median(b) / median(a) for independent samples, at least 95 %; coverage 0 when either side has too few.
/// Throws std::invalid_argument on an empty side or a value that is not positive.
Interval independent_ratio(const std::vector<double>& a, const std::vector<double>& b);

/// "device 90 %", the part that takes most of a step; empty when nothing was recorded.
std::string bound_of(const std::optional<Split>& split);

}  // namespace tenfold
