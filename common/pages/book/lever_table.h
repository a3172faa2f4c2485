#pragma once
// What each lever of a stack brings, as a table of a lesson's page.

#include <filesystem>
#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// Markdown, a row for each lever: its own gain, what is reached so far, and its gain on top of all others. A sentence
/// without a result, or where it has no such case.
std::string levers_markdown(const Result* reference, const std::string& case_name);

}  // namespace tenfold
