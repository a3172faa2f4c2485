#pragma once
// Where techniques start to pay: the published sweeps of a machine in one table.

#include <filesystem>
#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// Every .json in `folder`, by name; none where there is no such folder. Throws FileError for a damaged one, and for
/// one that holds anything but points of a sweep.
std::vector<Result> sweeps_in(const std::filesystem::path& folder);

/// Those in results/<machine>/sweeps below `root`.
std::vector<Result> published_sweeps(const std::filesystem::path& root, const std::string& machine);

/// A row for each technique of each sweep: its speed and memory at both ends, and at which values it is FASTER or
/// SMALLER. Sweeps of lessons whose code in `root` has changed since are marked stale. Empty without sweeps.
std::string sweeps_markdown(const std::vector<Result>& sweeps, const std::filesystem::path& root);

}  // namespace tenfold
