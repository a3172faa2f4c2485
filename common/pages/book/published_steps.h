#pragma once
// Modelled times held against published ones, as Markdown.

#include <filesystem>
#include <set>
#include <string>

namespace tenfold {

/// From two files in docs/published_steps: published.json, collected before the model saw them, and
/// modelled.json, what the model says; modelled_frozen.json, where it is, what it said first. A table by arithmetic,
/// what was reserved, and below them each row with its source; "Not scored yet" without the latter. `earlier_models`
/// are the commits whose model of time is not this tree's. Throws FileError on a damaged file.
std::string published_steps_markdown(const std::filesystem::path& root,
                                     const std::set<std::string>& earlier_models = {});

/// Commits whose model of time gave modelled.json's times; none where the file is missing. Throws FileError on a
/// damaged one.
std::set<std::string> commits_of_scores(const std::filesystem::path& root);

}  // namespace tenfold
