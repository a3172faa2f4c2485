#include "common/pages/figures/figure_style.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "common/base/text.h"

namespace tenfold {

std::vector<FigureColour> figure_colours() {
  using namespace figure;
  return {kInk, kBlue, kOrange, kPurple, kTeal, kPink, kOlive};
}

namespace figure {
namespace {

// Where a reader has neither Helvetica nor Arial, the font that stands in may be a tenth wider (DejaVu Sans).
constexpr size_t kSubtitleColumns = 68;
constexpr int kRoomForWideFonts = 36;  // pixels, right of numbers that stand at the edge

}  // namespace

std::pair<std::string, double> byte_unit(double most) {
  const std::string text = human_bytes(most);
  const std::string unit = text.substr(text.find(' ') + 1);
  double bytes = 1;
  for (const char* larger : {"KiB", "MiB", "GiB", "TiB"}) {
    if (unit == "B") break;
    bytes *= 1024;
    if (unit == larger) break;
  }
  return {unit, bytes};
}

std::pair<std::string, double> time_unit(double most) {
  if (most >= 0.9995) return {"s", 1};
  if (most >= 0.9995e-3) return {"ms", 1e-3};
  return {"us", 1e-6};
}

Json start(const std::string& title, const std::string& subtitle) {
  const char* ink = kInk.plain;
  std::istringstream lines(wrap_text(subtitle, kSubtitleColumns));
  Json subtitles = Json::array();
  for (std::string line; std::getline(lines, line);) subtitles.push_back(line);
  return {{"$schema", "https://vega.github.io/schema/vega-lite/v5.json"},
          {"background", nullptr},
          {"padding", {{"left", 5}, {"top", 5}, {"right", 5 + kRoomForWideFonts}, {"bottom", 5}}},
          {"title", {{"text", title}, {"subtitle", subtitles}}},
          {"config",
           {{"font", "Helvetica, Arial, sans-serif"},
            {"aria", false},  // the file's title says it in words
            {"view", {{"stroke", nullptr}}},
            {"axis",
             {{"labelColor", ink},
              {"titleColor", ink},
              {"domainColor", ink},
              {"tickColor", ink},
              {"gridColor", ink},
              {"gridOpacity", 0.25},
              {"labelFontSize", kFigureText - 2},
              {"titleFontSize", kFigureText - 2},
              {"titleFontWeight", "normal"},
              {"labelFlush", false}}},
            {"title",
             {{"color", ink},
              {"subtitleColor", ink},
              {"anchor", "start"},
              {"frame", "bounds"},
              {"fontSize", kFigureText + 3},
              {"subtitleFontSize", kFigureText - 2},
              {"subtitlePadding", 6},
              {"offset", 14}}},
            {"text", {{"fontSize", kFigureText}, {"color", ink}}}}}};
}

Json quantity(const char* field, const Json& scale, const Json& axis) {
  return {{"field", field}, {"type", "quantitative"}, {"scale", scale}, {"axis", axis}};
}

Json rows(std::vector<Json> values) { return {{"values", std::move(values)}}; }

Json text_mark(const char* align, const FigureColour& colour, bool bold) {
  return {{"type", "text"},
          {"align", align},
          {"baseline", "middle"},
          {"color", colour.plain},
          {"fontWeight", bold ? "bold" : "normal"}};
}

RatioAxis ratio_axis(const std::vector<double>& values) {
  RatioAxis axis;
  for (const double value : values) axis.low = std::min(axis.low, value), axis.high = std::max(axis.high, value);
  const double room = std::max(0.06 * std::log(axis.high / axis.low), std::log(1.03));
  axis.low *= std::exp(-room), axis.high *= std::exp(room);
  // The coarsest of these steps that leaves three numbers.
  for (const double step : {16.0, 4.0, 2.0, std::sqrt(2.0), 1.2, 1.1, 1.05, 1.02}) {
    axis.ticks.clear();
    for (int i = -40; i <= 40; ++i) {
      const double tick = std::pow(step, i);
      if (tick < axis.low || tick > axis.high) continue;
      // Two digits: 0.7 and 1.4 for the roots of two.
      const double digit = std::pow(10, std::floor(std::log10(tick)) - 1);
      axis.ticks.push_back(step < 2 ? std::round(tick / digit) * digit : tick);
    }
    if (axis.ticks.size() >= 3) break;
  }
  return axis;
}

Json rounded(Json spec) {
  if (spec.is_structured()) {
    for (Json& part : spec) part = rounded(std::move(part));
  } else if (spec.is_number_float()) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.9g", spec.get<double>());
    spec = std::strtod(text.data(), nullptr);
  }
  return spec;
}

double text_width(const std::string& text) { return 0.6 * kFigureText * static_cast<double>(display_width(text)); }

}  // namespace figure
}  // namespace tenfold
