#pragma once
// From trainings to a verdict: does a technique end with as good a quality as the baseline, and how soon has it got
// there? Both are pure functions of the recorded curves, so they can be recomputed from a file.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/result/statistics.h"
#include "common/result/verdict.h"

namespace tenfold {

enum class Quality { not_worse, worse, ambiguous, undecided, invalid, skipped };
std::string to_string(Quality label);           ///< "NOT WORSE", ...
Quality quality_from(const std::string& text);  ///< throws std::invalid_argument on an unknown label

enum class Better { lower, higher };
std::string to_string(Better better);         ///< "lower"
Better better_from(const std::string& text);  ///< throws std::invalid_argument on anything else

/// What the quality of a trained model is measured in.
struct Metric {
  std::string name;  ///< "validation loss"
  std::string unit;  ///< "%"; empty where it has none
  Better better = Better::lower;
  double margin = 0;      ///< how much worse than the baseline still counts as not worse
  bool relative = false;  ///< the margin is a part of the baseline's mean quality, else it has the metric's unit
};

/// One training: a value of each column for each of its evaluations, in order. The last evaluation is its end.
struct Curve {
  std::vector<int64_t> wall_ns, processor_ns;  ///< of training so far, without the evaluations
  std::vector<double> quality;
  std::optional<int64_t> items = std::nullopt;  ///< trained on until its end, where they were counted

  const std::vector<int64_t>& ns(Clock clock) const { return clock == Clock::processor ? processor_ns : wall_ns; }
};

/// The fewest seeds that can carry a verdict, as with rounds.
inline constexpr int kFewestSeeds = kFewestRounds;

struct QualityVerdict {
  Quality label = Quality::undecided;
  Interval difference;  ///< technique less baseline, in the metric's unit; coverage 0 with one seed
  double margin = 0;    ///< in the metric's unit
};

/// Compares final qualities, seed by seed. The interval is Student's over the differences.
///   NOT WORSE  even its bad end is within the margin
///   WORSE      even its good end is beyond the margin
///   AMBIGUOUS  neither
///   UNDECIDED  fewer than kFewestSeeds seeds
/// Throws std::invalid_argument on unequal or no seeds, or a value that is not finite.
QualityVerdict judge_quality(const std::vector<double>& baseline, const std::vector<double>& technique,
                             const Metric& metric);

/// Seconds after which a curve first reaches a quality, on the straight line between two evaluations; nothing when it
/// never does. A target that the first evaluation has already reached counts from there: what was before is unknown.
std::optional<double> seconds_to(const Curve& curve, double target, Better better, Clock clock);

struct TimeToQuality {
  Speed label = Speed::undecided;
  std::optional<Interval> ratio;  ///< baseline's seconds over the technique's; coverage 0 with one seed
  int reached = 0;                ///< seeds in which the technique got there
  int at_once = 0;                ///< seeds in which the baseline was there at its first evaluation
};

/// Time to an equal quality: the target of a seed is the baseline's final quality in that seed, less strict by
/// `margin` (in the metric's unit). The ratio is the geometric mean over the seeds with Student's interval; its label
/// as of any speed. A technique that does not get there in every seed has no ratio and is UNDECIDED, since a mean over
/// the seeds that went well would flatter it; nor has one whose baseline is there at the first evaluation: trainings
/// that short cannot tell the two apart. Throws std::invalid_argument on unequal or no seeds.
TimeToQuality judge_time_to_quality(const std::vector<Curve>& baseline, const std::vector<Curve>& technique,
                                    Better better, double margin, Clock clock);

}  // namespace tenfold
