#pragma once
// Which of the allocator's cures the numbers of a trace support. The rules stand in words on the page of lesson 32.

#include <string>
#include <vector>

#include "replay.h"

namespace tenfold {

struct Cure {
  std::string id;      ///< "expandable_segments"; for programs that read the JSON
  std::string what;    ///< what to do
  std::string reason;  ///< with its numbers
};

struct Advice {
  std::vector<Cure> cures;  ///< the first is to be tried first
  std::string otherwise;    ///< where there is none: why
  int64_t excess = 0;       ///< reserved less requested and rounding, each at its peak
};

/// An excess that is worth a cure: a tenth of what is reserved, and so many bytes.
inline constexpr double kExcessShare = 0.1;
inline constexpr int64_t kExcessBytes = 64 * kMiB;

/// Sizes above 1 MiB that come for the first time in the second half of a trace, at which lengths are said to vary.
inline constexpr int64_t kNewSizes = 8;

/// Returns of the cache, and the share of their bytes that is asked for again, at which driver calls are thrash.
inline constexpr int64_t kReturns = 3;
inline constexpr double kAskedAgain = 0.5;

/// `replayed` may be nullptr: without a trace no cure is named.
Advice advise(const MemorySnapshot& snapshot, const MemoryNow& now, const Replay* replayed);

/// Bytes that were free in the allocator's own segments at an out of memory.
int64_t free_in_cache(const OutOfMemory& event);

}  // namespace tenfold
