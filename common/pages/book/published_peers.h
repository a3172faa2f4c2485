#pragma once
// Other predictors of a step's time and memory, held against the same published rows, as Markdown.

#include <filesystem>
#include <string>

namespace tenfold {

/// From three files in docs/published_steps: published.json, peers.json (what other predictors say) and
/// modelled.json (what the dry GPU says). For each predictor how many rows it can run and how far it is off; "Not
/// scored yet" without peers.json. Throws FileError on a damaged file.
std::string published_peers_markdown(const std::filesystem::path& root);

}  // namespace tenfold
