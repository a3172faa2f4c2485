#pragma once
// How far predicted peaks are from what GPUs that are not there have counted, as Markdown.

#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// Over all lessons, a row for each card: how far predicted peaks are from the allocator's, how many variants agree and
/// how many traps are caught; and below each prediction that is further off than kShownOff.
std::string dry_peaks_markdown(const std::vector<Result>& dry);

/// A predicted peak that is further off is named by dry_peaks_markdown().
inline constexpr double kShownOff = 0.02;

}  // namespace tenfold
