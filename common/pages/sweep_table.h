#pragma once
// Where techniques start to pay: the published sweeps of a machine in one table.

#include <filesystem>
#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// A sweep's file in a folder of sweeps: "30_length_model_states.json". Several cases may be swept over one setting.
std::string sweep_file(const std::string& lesson, const std::string& setting, const std::string& case_name);

/// The case that a point of a sweep varies: "model states" of "model states length=8".
std::string swept_case(const CaseResult& point);

/// Every .json in `folder`, by name; none where there is no such folder. Throws FileError for a damaged one, and for
/// one that holds anything but points of a sweep.
std::vector<Result> sweeps_in(const std::filesystem::path& folder);

/// Those in results/<machine>/sweeps below `root`.
std::vector<Result> published_sweeps(const std::filesystem::path& root, const std::string& machine);

/// A row for each technique of each sweep: its speed and memory at both ends, and at which values it is FASTER or
/// SMALLER. Sweeps of lessons whose code in `root` has changed since are marked stale. Empty without sweeps.
std::string sweeps_markdown(const std::vector<Result>& sweeps, const std::filesystem::path& root);

}  // namespace tenfold
