#pragma once
// Under which names a variant's `counted` has what a dry GPU was asked for in a step.

#include "common/result/result.h"

namespace tenfold {

inline constexpr const char *kLaunches = "launches", *kGraphLaunches = "launches of graphs",
                            *kHostWaits = "waits of the host", *kCopies = "copies",
                            *kBytesToDevice = "bytes to the device", *kBytesToHost = "bytes to the host",
                            *kBytesPageable = "bytes pageable";
/// Of the process: those other than the default one that were given work.
inline constexpr const char* kSideStreams = "side streams";

/// What of it was counted; 0 where nothing was.
inline double dry_count(const VariantResult& variant, const char* name) {
  const auto count = variant.counted.find(name);
  return count == variant.counted.end() ? 0 : count->second;
}

}  // namespace tenfold
