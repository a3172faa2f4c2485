#pragma once
// Links of a page, as they have to stand in another one.

#include <filesystem>
#include <string>

namespace tenfold {

/// The same Markdown with its relative links, "[00](../00_measuring/README.md)" in the page `from`, as `to` needs them.
/// Links to the web, and what stands in `code`, stay as they are.
std::string relinked(const std::string& markdown, const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace tenfold
