#pragma once
// From rounds to a verdict. A verdict is a pure function of the recorded blocks, so it can be recomputed from a file.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/result/statistics.h"

namespace tenfold {

/// What a comparison came to. Only faster, slower and same are claims; ambiguous and undecided say why there is none.
enum class Speed { faster, slower, same, ambiguous, undecided, invalid, skipped };
enum class Memory { smaller, larger, same, unknown };

std::string to_string(Speed label);           ///< "FASTER", ...
std::string to_string(Memory label);          ///< "SMALLER", ...
Speed speed_from(const std::string& text);    ///< throws std::invalid_argument on an unknown label
Memory memory_from(const std::string& text);  ///< throws std::invalid_argument on an unknown label

/// Which of its recorded times a case is judged by, fixed before its first round. `processor` leaves out what other
/// programs took, and holds only where a step neither waits nor has threads of its own; `device` is CUDA's events.
enum class Clock { wall, processor, device };
std::string to_string(Clock clock);
Clock clock_from(const std::string& text);  ///< throws std::invalid_argument on an unknown one

/// The timed blocks of one live variant, round by round, as columns.
struct Blocks {
  int64_t steps = 0;                                      ///< training steps in each block
  int64_t items = 0;                                      ///< work done in each block
  std::vector<int64_t> build;                             ///< which build of the variant it was, from 0
  std::vector<int64_t> position;                          ///< place within the round, from 0
  std::vector<int64_t> wall_ns, processor_ns, device_ns;  ///< empty where not taken

  size_t size() const { return build.size(); }
  const std::vector<int64_t>& ns(Clock clock) const {
    return clock == Clock::wall ? wall_ns : clock == Clock::processor ? processor_ns : device_ns;
  }
  /// Items per second of block `i`.
  double rate(size_t i, Clock clock) const {
    return 1e9 * static_cast<double>(items) / static_cast<double>(ns(clock)[i]);
  }
};

/// The fewest rounds that can carry a verdict, and the number the method asks for.
inline constexpr int kFewestRounds = 6;
inline constexpr int kFullRounds = 12;
/// From so many builds on a build is a sample: its memory layout is drawn anew.
inline constexpr int kFewestBuilds = 6;
/// A claim lies further from 1 than this, on all of its interval: a smaller difference would interest nobody.
inline constexpr double kClear = 0.01;
/// SAME: the whole interval is no further from 1, whatever the machine's noise.
inline constexpr double kSame = 0.02;

struct SpeedVerdict {
  Speed label = Speed::undecided;
  Interval ratio;        ///< technique's items/s over the baseline's; all 0 (and absent from files) unless timed
  Interval equal;        ///< of the two baselines, in the same way
  double noise() const;  ///< the far end of `equal`, as a distance from 1
};

/// FASTER or SLOWER when the interval of a ratio clears 1 by more than 1 %, SAME when it lies within 2 % of 1, else
/// AMBIGUOUS.
Speed speed_label(const Interval& ratio);

/// Compares a technique with the two baselines of the same rounds (equal counts and builds). In each round the
/// technique's rate is divided by each baseline's. The ratio is the median of these quotients, its interval comes from
/// the rank of the technique among three blocks that are exchangeable when the code is identical. From kFewestBuilds
/// builds on the medians of the builds are samples too, and Student's interval over their logarithms is taken if it is
/// wider.
///   FASTER, SLOWER  the interval clears 1 by more than 1 %; SAME: it lies within 2 % of 1
///   AMBIGUOUS       neither; or two equal baselines differ by more than 1 %, and the label does not stand once the
///                   interval is widened by as much as they may differ, as SAME never does
///   UNDECIDED       fewer than kFewestRounds rounds
/// Throws std::invalid_argument on unequal counts or a block without time or items.
SpeedVerdict judge_speed(const Blocks& baseline_a, const Blocks& baseline_b, const Blocks& technique, Clock clock);

/// Peak bytes of the technique against the baseline; SAME within 1 %. Unknown when either was not measured.
struct MemoryVerdict {
  Memory label = Memory::unknown;
  double ratio = 0;
};
MemoryVerdict judge_memory(std::optional<int64_t> baseline_bytes, std::optional<int64_t> technique_bytes);

}  // namespace tenfold
