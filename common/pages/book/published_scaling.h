#pragma once
// How steps last on more GPUs, modelled and published, as Markdown.

#include <filesystem>
#include <string>

namespace tenfold {

/// From docs/published_scaling.json: each published efficiency between the model's two bounds or not, in how many pairs
/// of a run the model has the published order, and the sources. Throws FileError on a damaged file.
std::string published_scaling_markdown(const std::filesystem::path& root);

/// What the model says of the last table's first row, which was measured on one node: on more nodes, over networks of
/// several speeds.
std::string scaling_forecast_markdown(const std::filesystem::path& root);

}  // namespace tenfold
