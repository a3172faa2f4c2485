#pragma once
// The sets of what was said of cards that are not there, as they were sealed, as Markdown.

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// A row for each dry set that is published: its card, how many of its results have modelled speeds, and how many of
/// these by this tree's model, its last date and commit, and its seal's hash. `earlier_models` are the commits with
/// another model. Throws FileError where a set is not as it was sealed.
std::string seals_markdown(const std::filesystem::path& root, const std::vector<Result>& dry,
                           const std::set<std::string>& earlier_models);

}  // namespace tenfold
