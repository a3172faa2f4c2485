#pragma once
// What git says of a source tree.

#include <filesystem>
#include <string>
#include <vector>

namespace tenfold {

/// What git answers in `source`, whatever the caller's environment and settings say of repositories; empty when it
/// fails.
std::string git_answer(const std::filesystem::path& source, const std::vector<std::string>& arguments);

}  // namespace tenfold
