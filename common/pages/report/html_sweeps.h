#pragma once
// The report's part about sweeps: where a technique starts to pay.

#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// A curve of speed over the swept setting for each technique of each sweep, and a table with the same numbers. A
/// sweep of other code than the lesson's result in `results` says so.
std::string sweeps_section(const std::vector<Result>& sweeps, const std::vector<Result>& results);

}  // namespace tenfold
