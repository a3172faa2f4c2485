#pragma once
// From rounds to a verdict. A verdict is a pure function of the recorded rounds, so it can be recomputed from a file.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenfold {

/// What a comparison came to. Only faster, slower and same are claims; ambiguous and undecided say why there is none.
enum class Speed { faster, slower, same, ambiguous, undecided, invalid, skipped };
enum class Memory { smaller, larger, same, unknown };

std::string to_string(Speed label);           ///< "FASTER", ...
std::string to_string(Memory label);          ///< "SMALLER", ...
Speed speed_from(const std::string& text);    ///< throws std::invalid_argument on an unknown label
Memory memory_from(const std::string& text);  ///< throws std::invalid_argument on an unknown label

/// One timed block of a variant within a round.
struct Round {
  int position = 0;    ///< place within the round, from 0
  double seconds = 0;  ///< duration of the block
  int64_t items = 0;   ///< work done in it

  double rate() const { return static_cast<double>(items) / seconds; }
};

/// The fewest rounds that can carry a verdict, and the number the method asks for.
inline constexpr int kFewestRounds = 6;
inline constexpr int kFullRounds = 12;

struct SpeedVerdict {
  Speed label = Speed::undecided;
  double ratio = 0;  ///< technique's items/s over the baseline's; 0 (and absent from files) unless timed
  double low = 0, high = 0;
  double noise = 0;  ///< far end of the interval of the two baselines' ratio, as a distance from 1
};

/// Compares a technique with the two baselines of the same rounds (equal counts).
///   FASTER, SLOWER  the interval of the paired ratio clears 1 by more than 1 %
///   SAME            the interval lies within max(1 %, twice the noise) of 1, at most 5 %
///   AMBIGUOUS       neither; or the two equal baselines themselves differ beyond their interval and 1 %
///   UNDECIDED       fewer than kFewestRounds rounds
/// Throws std::invalid_argument on unequal counts or a block without time or items.
SpeedVerdict judge_speed(const std::vector<Round>& baseline_a, const std::vector<Round>& baseline_b, const std::vector<Round>& technique);

/// Peak bytes of the technique against the baseline; SAME within 1 %. Unknown when either was not measured.
struct MemoryVerdict {
  Memory label = Memory::unknown;
  double ratio = 0;
};
MemoryVerdict judge_memory(std::optional<int64_t> baseline_bytes, std::optional<int64_t> technique_bytes);

}  // namespace tenfold
