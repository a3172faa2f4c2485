#pragma once
// The times of a ladder's contestants: each is checked once, then they take turns, round after round, until all rounds
// are done or the time is up.

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/machine/nvml.h"

#include "ladder.h"

namespace tenfold::bench {

using Clock = std::chrono::steady_clock;

inline constexpr const char* kCopy = "copy";
inline constexpr int kRounds = 12;  ///< order statistics then enclose the median with 96 %

/// Why a contestant or a ladder has no times.
struct Problem {
  std::string text;    ///< one line; empty: there is none
  bool failed = true;  ///< wrong or broken; else it does not run here, or there was no time for it
};

/// Calls `work`; what it throws is a failure, but memory that does not suffice only says that it does not fit here.
Problem problem_of(const std::function<void()>& work);

/// Whether the contestant's results are right. What it throws is in the answer.
Problem check(const Ladder& ladder, const Contestant& contestant);

/// One contestant's seconds for a launch, a value for each round: the median of that round's launches.
struct Row {
  std::string name;
  std::vector<double> cold = {}, hot = {};  ///< on empty caches, and right after the launch before
  Problem problem = {};
};

/// A ladder's times, without its tensors.
struct Measured {
  std::string ladder;
  double bytes = 0, flops = 0;
  std::vector<Row> rows = {};  ///< in the order of Ladder::contestants, then those that cannot run, then the copy
  std::vector<GpuState> states = {};  ///< of the GPU after each round; empty where the driver does not tell
};

/// Checks every contestant once and times those that are right, and a copy of as many bytes, in `kRounds` rounds. How
/// many launches a round has comes from the first one's time and from what is left until `end`: as many as fit, at
/// least one round of one launch. A contestant that takes more than 10 ms, and more than 20 times as long as the
/// fastest, is launched once or twice, on cold caches, and not again.
Measured measure(const Ladder& ladder, const Place& place, Clock::time_point end);

}  // namespace tenfold::bench
