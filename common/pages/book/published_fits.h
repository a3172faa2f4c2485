#pragma once
// What `./tenfold fit` counts of models whose memory others published, and what it prints of one.

#include <filesystem>
#include <string>

namespace tenfold {

/// A table of published peaks and counted ones, each with what differs, from docs/published_fits below `root`. A
/// sentence where nothing was counted yet. Throws FileError on a file that cannot be read.
std::string published_fits_markdown(const std::filesystem::path& root);

/// The command of the example and what it printed, as a block.
std::string printed_fit_markdown(const std::filesystem::path& root);

}  // namespace tenfold
