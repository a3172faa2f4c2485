#pragma once
// The sets of what was said of cards that are not there, as they were sealed, as Markdown.

#include <filesystem>
#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// A row for each dry set that is published: its card, its last date, its commits, and its seal's hash. Throws
/// FileError where a set is not as it was sealed.
std::string seals_markdown(const std::filesystem::path& root, const std::vector<Result>& dry);

}  // namespace tenfold
