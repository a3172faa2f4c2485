#pragma once
// How two techniques of the same rounds compare, neither of which is the baseline. verdict.cpp defines it, next to the
// ratio that a verdict reads.

#include "common/result/result.h"
#include "common/result/statistics.h"

namespace tenfold {

/// The items/s of `after` over those of `before`, with the interval of the rounds' quotients; or that of the builds'
/// medians, if it is wider. Throws std::invalid_argument on unequal or no rounds.
Interval rate_ratio(const Blocks& before, const Blocks& after, Clock clock);

}  // namespace tenfold
