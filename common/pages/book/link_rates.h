#pragma once
// A case of two ranks, measured over links of several rates, as Markdown.

#include <filesystem>
#include <string>

namespace tenfold {

/// From docs/links/LESSON/RATE.json, results of one case each: a row for each rate, slowest first, with each variant's
/// items per second, and over the baseline's. "Not measured yet." without them. Throws FileError on a damaged one,
/// and where they are not all of one case.
std::string link_rates_markdown(const std::filesystem::path& root, const std::string& lesson);

}  // namespace tenfold
