#pragma once
// A result as text for a terminal: what a lesson prints at its end, and what the tour prints over all lessons.

#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// The whole result, at most 120 columns wide: per case each variant with its speed, peak, verdicts and predictions,
/// where the time goes, notes and reasons. A survey prints its notes instead of verdicts.
std::string format_table(const Result& result);

/// One table of verdicts over many results, grouped by lesson, at most 120 columns wide.
std::string format_summary(const std::vector<Result>& results);

}  // namespace tenfold
