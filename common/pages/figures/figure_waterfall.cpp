#include "common/pages/figures/figure_waterfall.h"

#include <algorithm>

#include "common/base/text.h"
#include "common/pages/figures/figure_style.h"
#include "common/result/lever_gains.h"

namespace tenfold {
namespace {

using namespace figure;

constexpr double kRow = 40;  // pixels

struct Bars {
  std::vector<Json> bars, intervals, names, numbers;
  std::vector<double> values = {1};
  std::string alt;

  void add(const std::string& name, const std::string& number, const FigureColour& colour, double from, double to) {
    const auto row = static_cast<double>(names.size());
    bars.push_back({{"x", std::min(from, to)},
                    {"x2", std::max(from, to)},
                    {"y", row + 0.2},
                    {"y2", row + 0.8},
                    {"colour", colour.plain}});
    names.push_back({{"y", row + 0.5}, {"text", name}});
    numbers.push_back({{"y", row + 0.5}, {"text", number}});
    values.insert(values.end(), {from, to});
    alt += (alt.empty() ? "" : "; ") + name + " " + number;
  }
};

Json column(std::vector<Json> values, const Json& y, double at, bool bold) {
  return {{"data", rows(std::move(values))},
          {"mark", text_mark("left", kInk, bold)},
          {"encoding", {{"x", {{"value", at}}}, {"y", y}, {"text", {{"field", "text"}, {"type", "nominal"}}}}}};
}

}  // namespace

std::optional<Figure> waterfall_figure(const CaseResult& c, const CaseResult* training) {
  constexpr double kNames = 0, kPlot = 300, kPlotEnd = 560, kNumbers = 576;
  Bars out;
  double reached = 1;
  std::optional<Interval> whole;
  for (const LeverGain& gain : lever_gains(c, training)) {
    if (!gain.own || !gain.so_far) {
      out.add(gain.lever, gain.own ? "(" + human_ratio(gain.own->middle) + ")" : "-", kInk, reached, reached);
      continue;
    }
    const double before = reached;
    reached = gain.so_far->middle;
    // A gain that its interval does not tell from none is neither.
    const bool told = gain.own->low > 1 || gain.own->high < 1;
    out.add(gain.lever, human_ratio(reached), told ? (gain.own->middle > 1 ? kBlue : kOrange) : kInk, before, reached);
    whole = gain.so_far;
  }
  if (!whole) return std::nullopt;
  out.add("all together", human_ratio(whole->middle), kPurple, 1, whole->middle);
  out.intervals.push_back({{"x", whole->low}, {"x2", whole->high}, {"y", static_cast<double>(out.names.size()) - 0.5}});
  out.values.insert(out.values.end(), {whole->low, whole->high});
  const RatioAxis axis = ratio_axis(out.values);
  const Json y = quantity("y", {{"domain", {0, out.names.size()}}, {"reverse", true}, {"nice", false}}, nullptr);
  const Json x =
      quantity("x", {{"type", "log"}, {"domain", {axis.low, axis.high}}, {"nice", false}, {"range", {kPlot, kPlotEnd}}},
               {{"title", "times " + c.variants.front().name}, {"values", axis.ticks}, {"labelExpr", kRatioLabel}});
  Json spec =
      start("What each technique brings, case " + c.name,
            "times the first pipeline, with the techniques of a row and all above it; grey: not told from noise");
  spec["width"] = kFigureWidth, spec["height"] = kRow * static_cast<double>(out.names.size());
  const Json to = {{"field", "x2"}};
  spec["layer"] = {{{"data", rows({{{"x", 1}}})},
                    {"mark", {{"type", "rule"}, {"color", kInk.plain}, {"strokeWidth", 2}}},
                    {"encoding", {{"x", x}}}},
                   {{"data", rows(out.bars)},
                    {"mark", {{"type", "rect"}}},
                    {"encoding",
                     {{"x", x},
                      {"x2", to},
                      {"y", y},
                      {"y2", {{"field", "y2"}}},
                      {"color", {{"field", "colour"}, {"type", "nominal"}, {"scale", nullptr}}}}}},
                   {{"data", rows(out.intervals)},
                    {"mark", {{"type", "rule"}, {"color", kInk.plain}, {"strokeWidth", 3}}},
                    {"encoding", {{"x", x}, {"x2", to}, {"y", y}}}},
                   column(out.names, y, kNames, true),
                   column(out.numbers, y, kNumbers, false)};
  return Figure{rounded(spec), "How fast a step of case " + c.name +
                                   " is with the techniques of each row and all above it: " + out.alt};
}

}  // namespace tenfold
