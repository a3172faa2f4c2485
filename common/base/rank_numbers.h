#pragma once
// On how many ranks the parts of a lesson run, and what --ranks may ask of them.

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/flags.h"

namespace tenfold {

/// The numbers of ranks that a part has places for: one number, or as many as there are in multiples of one.
struct RankNumbers {
  int unit = 1;          ///< ranks of the fixed dimensions of its mesh together
  bool as_many = false;  ///< any multiple of `unit`; else `unit` alone

  bool takes(int ranks) const { return as_many ? ranks > 0 && ranks % unit == 0 : ranks == unit; }
  bool operator==(const RankNumbers&) const = default;
};

/// The numbers that --ranks names, in their order; none without the flag.
std::vector<int> ranks_given(const GivenFlags& given);

/// Devices that a value of CUDA_VISIBLE_DEVICES names.
size_t visible_among(const std::string& list);

/// The number for parts that take as many ranks as there are, where --ranks names none: the most that this many GPUs
/// give one each, and two ranks where there are fewer GPUs. At least one of each fixed dimension's.
int ranks_unless_given(const RankNumbers& part, size_t gpus);

struct NamedRankNumbers {
  std::string part;
  RankNumbers ranks;
};

/// Throws UsageError unless one of the parts that were chosen runs on as many ranks as there are, and all such parts
/// take each of these numbers.
void check_ranks(const std::vector<int>& numbers, const std::vector<NamedRankNumbers>& chosen);

}  // namespace tenfold
