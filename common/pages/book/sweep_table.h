#pragma once
// Where techniques start to pay: the published sweeps of a machine in one table.

#include <filesystem>
#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// A row for each technique of each sweep: its speed and memory at both ends, and at which values it is FASTER or
/// SMALLER. Sweeps of lessons whose code in `root` has changed since are marked stale. Empty without sweeps.
std::string sweeps_markdown(const std::vector<Result>& sweeps, const std::filesystem::path& root);

}  // namespace tenfold
