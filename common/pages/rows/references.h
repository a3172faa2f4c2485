#pragma once
// Which machine's results a page speaks of, where several have published some.

#include <filesystem>
#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// The machines that pages may speak of: the lines of results/REFERENCE, the one that is preferred first.
std::vector<std::string> reference_machines(const std::filesystem::path& root);

/// Of each lesson one of the `published` results: of the first machine in results/REFERENCE that measured the lesson's
/// code as it stands, else of the first that measured the lesson at all. So that a change of code waits for no machine:
/// whichever is at hand measures anew, and a page never mixes two.
std::vector<Result> reference_results(const std::filesystem::path& root, const std::vector<Result>& published);

/// The same choice among the sweeps of one lesson over one setting, in the order of the machines; null without one.
const Result* reference_of(const std::vector<const Result*>& in_order, const std::string& hash_now);

/// The result of a lesson; null where there is none.
const Result* result_of(const std::vector<Result>& results, const std::string& lesson);

}  // namespace tenfold
