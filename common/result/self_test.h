#pragma once
// What the rounds of a run say of the judgement itself: is identical code called the same, and would code that is 5 %
// slower have been found?

#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// What is planted: one of two equal baselines with all of its times so much longer.
inline constexpr double kPlanted = 0.05;

/// Of one timed case: its two baselines, which are the same code timed in turn, judged against each other.
struct SelfTestRow {
  std::string lesson, case_name;
  int rounds = 0;
  Clock clock = Clock::wall;
  Interval equal;                      ///< of the second baseline's rate over the first's, round by round
  Speed identical = Speed::undecided;  ///< SAME or AMBIGUOUS, unless something moved the machine
  bool found = false;                  ///< planted on one of them, 5 % is SLOWER; taken off, it is FASTER
};

struct SelfTest {
  std::vector<SelfTestRow> rows;

  int cases() const { return static_cast<int>(rows.size()); }
  int same() const;
  int told_apart() const;  ///< identical code called FASTER or SLOWER
  int found() const;
  /// Why nobody should rely on these results, in one sentence; empty when there is no reason. An interval of 95 % may
  /// miss: one case told apart, and one more for every ten, is no fault. The 5 % must be found in half of the cases.
  std::string objection() const;
};

/// A row for each case that was timed for kFewestRounds or more and that may have a verdict on speed. One baseline
/// stands for the technique, so a round gives one quotient and not two: these intervals are wider than a verdict's.
SelfTest self_test(const std::vector<Result>& results);

}  // namespace tenfold
