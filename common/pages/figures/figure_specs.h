#pragma once
// The figures of pages and report, as Vega-Lite specifications with their data inside. Colours have a contrast of 3 and
// more on a white page and on GitHub's dark one; what differs in colour differs in its place, label or dash, too.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

struct Figure {
  nlohmann::json spec;  ///< Vega-Lite 5, kFigureWidth wide, no background
  std::string alt;      ///< what is seen, for one who does not see it
};

inline constexpr int kFigureWidth = 720, kFigureText = 19;  ///< pixels; at a phone's 400 the text has 10.5
inline constexpr const char *kWhitePage = "#ffffff", *kDarkPage = "#0d1117";

/// A colour as it stands in a figure, and what a style sheet may make of it on a light and on a dark page. Each of the
/// three can be read on both pages, because a reader's browser and GitHub may be set to different ones.
struct FigureColour {
  const char *plain, *on_light, *on_dark;
};
/// Every colour that a specification uses on the page itself.
std::vector<FigureColour> figure_colours();
/// What is written inside a coloured area.
inline constexpr const char* kFigureInside = "#ffffff";

/// Where one step's time goes, a bar for each variant. Nothing where no variant was split.
std::optional<Figure> split_figure(const CaseResult& c);

/// Speed with its interval, memory, and what was predicted of both, a row for each technique. Nothing where no
/// technique has a ratio.
std::optional<Figure> ratio_figure(const CaseResult& c);

}  // namespace tenfold
