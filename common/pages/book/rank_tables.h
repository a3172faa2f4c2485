#pragma once
// What ranks send and hold, counted on several numbers of them, and by formula, as Markdown.

#include <filesystem>
#include <string>

namespace tenfold {

/// From docs/ranks/*/LESSON.json, results that may have a case on several numbers of ranks: for each lesson how many
/// counts there are and the largest error of its formulas, and folded, a row for each technique. "Not counted yet."
/// without them. A lesson some of whose counts are of other code than is in `root` is marked stale. Throws FileError on
/// a damaged one.
std::string rank_tables_markdown(const std::filesystem::path& root);

}  // namespace tenfold
