#pragma once
// What may be published of measured results, and how they get into results/.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/result/result.h"

namespace tenfold::cli {

/// A result, and the file that it is in as messages name it.
using NamedResult = std::pair<std::filesystem::path, Result>;

/// Every result of the folder that --out names, by name; or, where `files` names some, these. All after
/// require_publishable(). Throws UsageError, also when there is none, and FileError on a damaged one.
std::vector<NamedResult> publishable_results(const std::string& out, const std::string& preset, bool sweeps,
                                             const std::string& outcome, const std::vector<std::string>& files = {});

/// All from clean, committed code, this tree's, of one machine and measured with this preset. Throws UsageError, whose
/// line ends with the outcome: "nothing was published".
void require_publishable(const std::vector<NamedResult>& results, const std::string& preset, bool sweeps,
                         const std::string& outcome);

/// Writes files, by their names in results/MACHINE, there; what else is in that folder stays.
void copy_to_results(const std::string& machine, const std::string& commit,
                     const std::vector<std::pair<std::filesystem::path, std::string>>& files, const char* kind);

/// A line on standard error for each case with too few rounds or seeds for an interval; not for one in which nothing
/// was timed.
void warn_of_few_rounds(const Result& result);

}  // namespace tenfold::cli
