#pragma once
// What all figures share: colours, fonts, axes.

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/pages/figures/figure_specs.h"

namespace tenfold::figure {

using Json = nlohmann::json;

inline constexpr FigureColour kInk{"#757d87", "#5f6771", "#8a929c"};
inline constexpr FigureColour kBlue{"#2f6fd0", "#2f6fd0", "#4a84dc"};
inline constexpr FigureColour kOrange{"#b4591a", "#b4591a", "#c96f30"};
inline constexpr FigureColour kPurple{"#8a63c9", "#8a63c9", "#9a76d6"};
inline constexpr FigureColour kTeal{"#1f7f86", "#1f7f86", "#2b959d"};
inline constexpr FigureColour kPink{"#b8418a", "#b8418a", "#cb5a9e"};
inline constexpr FigureColour kOlive{"#7a7a1f", "#7a7a1f", "#8f8f2e"};

/// A unit for values up to `most`: "MiB" and the bytes in one, or "ms" and the seconds.
std::pair<std::string, double> byte_unit(double most);
std::pair<std::string, double> time_unit(double most);

/// A specification with its title, for layers or panels to be added to.
Json start(const std::string& title, const std::string& subtitle);

Json quantity(const char* field, const Json& scale, const Json& axis);
Json rows(std::vector<Json> values);
/// Text at (x, y) of each row of data, from its field `text`.
Json text_mark(const char* align, const FigureColour& colour, bool bold = false);

/// A logarithmic axis of ratios that has 1 and all of `values` on it, and its round numbers.
struct RatioAxis {
  double low = 1, high = 1;
  std::vector<double> ticks;
};
RatioAxis ratio_axis(const std::vector<double>& values);
inline constexpr const char* kRatioLabel = "format(datum.value, '~g') + 'x'";

/// With nine digits of every number, so that a file is the same on every machine.
Json rounded(Json spec);

/// About how many pixels wide a text of the figures' size is.
double text_width(const std::string& text);

}  // namespace tenfold::figure
