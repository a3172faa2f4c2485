#pragma once
// Modelled times held against published ones, as Markdown.

#include <filesystem>
#include <string>

namespace tenfold {

/// From common/dry_gpu/held_out/published.json, collected before the model saw them, and results/dry_held_out.json,
/// what the model says: a table by arithmetic, and below it each row with its source. "Not scored yet" without the
/// latter. Throws FileError on a damaged file.
std::string held_out_markdown(const std::filesystem::path& root);

}  // namespace tenfold
