// Where a step's time goes; speed and memory against the baseline.
#include "common/pages/figures/figure_specs.h"

#include <algorithm>
#include <array>

#include "common/base/text.h"
#include "common/pages/figures/figure_style.h"
#include "common/pages/rows/rows.h"

namespace tenfold {
namespace {

using namespace figure;

/// Of kSplitParts, in their order.
constexpr std::array<FigureColour, kSplitParts.size()> kPartColours = {kOrange, kPurple, kBlue, kTeal, kPink};

/// Rows below each other: y counts rows from the top, x is what the axis says.
Json row_axis(size_t count) {
  return quantity("y", {{"domain", {0, count}}, {"reverse", true}, {"nice", false}}, nullptr);
}

/// A bar's parts, each labelled inside where its name has room; what has none is said beside the variant's name.
struct SplitRows {
  std::vector<Json> bars, names, beside, inside;
  std::string alt;
};

/// All bars are as long, since the pass that splits a step is another one than the one that times it: its totals are no
/// comparison of speed.
void add_split(SplitRows& out, const VariantResult& variant) {
  const auto row = static_cast<double>(out.names.size());
  const double sum = step_seconds(*variant.split);
  double at = 0;  // %
  std::string beside, shares;
  for (size_t i = 0; i < kSplitParts.size(); ++i) {
    const double seconds = (*variant.split).*kSplitParts[i].seconds;
    if (!(seconds > 0)) continue;
    const double share = 100 * seconds / sum;
    const std::string text = kSplitParts[i].name + std::string(" ") + human_percent(seconds / sum);
    out.bars.push_back(
        {{"x", at}, {"x2", at + share}, {"y", row + 0.44}, {"y2", row + 0.9}, {"colour", kPartColours[i].plain}});
    if (text_width(text) + 12 < kFigureWidth * seconds / sum) {
      out.inside.push_back({{"x", at + share / 2}, {"y", row + 0.67}, {"text", text}});
    } else if (share >= 1) {
      beside += (beside.empty() ? "" : ", ") + text;
    }
    if (share >= 1) shares += (shares.empty() ? "" : ", ") + text;
    at += share;
  }
  out.names.push_back({{"y", row + 0.24}, {"text", variant.name}});
  if (!beside.empty()) out.beside.push_back({{"y", row + 0.24}, {"text", beside}});
  out.alt += (out.alt.empty() ? "" : "; ") + variant.name + " " + shares;
}

/// Text at the figure's left or right edge.
Json edge_text(std::vector<Json> values, const Json& y, const char* align, bool bold) {
  return {{"data", rows(std::move(values))},
          {"mark", text_mark(align, kInk, bold)},
          {"encoding",
           {{"x", {{"value", std::string(align) == "left" ? 0 : kFigureWidth}}},
            {"y", y},
            {"text", {{"field", "text"}, {"type", "nominal"}}}}}};
}

struct RatioRows {
  std::vector<Json> names, intervals, speeds, memories, predictions, labels;
  std::vector<double> values;
  double row = 0;
  std::string alt;
};

void add_ratios(RatioRows& out, const Verdict& verdict, const VariantResult& variant, const VariantResult& baseline) {
  const SpeedResult& speed = verdict.speed;
  if (!speed.ratio && !verdict.memory.ratio) return;
  out.names.push_back({{"y", out.row + 0.5}, {"text", variant.name}});
  out.alt += (out.alt.empty() ? "" : "; ") + variant.name + ":";
  const auto predict = [&](double ratio) {
    out.predictions.push_back({{"x", ratio}, {"y", out.row + 0.5}});
    out.values.push_back(ratio);
  };
  if (speed.ratio) {
    ++out.row;
    std::string text = "speed " + human_ratio(*speed.ratio);
    out.speeds.push_back({{"x", *speed.ratio}, {"y", out.row + 0.5}});
    out.values.push_back(*speed.ratio);
    if (speed.low && speed.high) {
      text = "speed " + human_ratio(*speed.ratio, *speed.low, *speed.high);
      out.intervals.push_back({{"x", *speed.low}, {"x2", *speed.high}, {"y", out.row + 0.5}});
      out.values.insert(out.values.end(), {*speed.low, *speed.high});
    }
    if (variant.predicted.speed_ratio) predict(*variant.predicted.speed_ratio);
    out.labels.push_back({{"y", out.row + 0.5}, {"text", text}});
    out.alt += " " + text;
  }
  if (verdict.memory.ratio) {
    ++out.row;
    const std::string text = "memory " + human_ratio(*verdict.memory.ratio);
    out.memories.push_back({{"x", *verdict.memory.ratio}, {"y", out.row + 0.5}});
    out.values.push_back(*verdict.memory.ratio);
    if (const auto peak = baseline.peak(); peak && *peak > 0 && variant.predicted.peak_bytes)
      predict(static_cast<double>(*variant.predicted.peak_bytes) / static_cast<double>(*peak));
    out.labels.push_back({{"y", out.row + 0.5}, {"text", text}});
    out.alt += (speed.ratio ? ", " : " ") + text;
  }
  out.row += 1.3;
}

Json marks(std::vector<Json> values, const Json& mark, const Json& x, const Json& y) {
  return {{"data", rows(std::move(values))}, {"mark", mark}, {"encoding", {{"x", x}, {"y", y}}}};
}

}  // namespace

std::optional<Figure> split_figure(const CaseResult& c) {
  SplitRows out;
  for (const VariantResult& variant : c.variants) {
    if (variant.split && step_seconds(*variant.split) > 0) add_split(out, variant);
  }
  if (out.names.empty()) return std::nullopt;
  const size_t count = out.names.size();
  const Json y = row_axis(count);
  const Json x = quantity("x", {{"domain", {0, 100}}, {"nice", false}},
                          {{"title", "% of a variant's own step"}, {"tickCount", 6}, {"grid", false}});
  Json spec = start("Where one step's time goes", "case " + c.name + "; shares only: speeds stand in the table");
  spec["width"] = kFigureWidth, spec["height"] = 72 * count;
  spec["layer"] = {{{"data", rows(out.bars)},
                    {"mark", {{"type", "rect"}, {"x2Offset", -2}}},  // a gap between neighbours
                    {"encoding",
                     {{"x", x},
                      {"x2", {{"field", "x2"}}},
                      {"y", y},
                      {"y2", {{"field", "y2"}}},
                      {"color", {{"field", "colour"}, {"type", "nominal"}, {"scale", nullptr}}}}}},
                   edge_text(out.names, y, "left", true),
                   edge_text(out.beside, y, "right", false)};
  Json inside = text_mark("center", {kFigureInside, kFigureInside, kFigureInside}, true);
  inside["fontSize"] = kFigureText - 1;
  spec["layer"].push_back({{"data", rows(out.inside)},
                           {"mark", inside},
                           {"encoding", {{"x", x}, {"y", y}, {"text", {{"field", "text"}, {"type", "nominal"}}}}}});
  return Figure{rounded(spec), "Where one step's time goes in case " + c.name + ": " + out.alt};
}

std::optional<Figure> ratio_figure(const CaseResult& c) {
  if (!rows_of(c).has(Column::agreement) || c.variants.empty()) return std::nullopt;
  RatioRows out;
  for (const Verdict& verdict : c.verdicts) {
    if (const VariantResult* variant = variant_of(c, verdict.technique))
      add_ratios(out, verdict, *variant, c.variants.front());
  }
  if (out.names.empty()) return std::nullopt;
  constexpr int kPlot = 450;  // the numbers stand to the right of it
  const RatioAxis axis = ratio_axis(out.values);
  const Json y = row_axis(0), one = {{"x", 1}};
  Json x = quantity("x", {{"type", "log"}, {"domain", {axis.low, axis.high}}, {"nice", false}, {"range", {0, kPlot}}},
                    {{"title", "times the baseline"},
                     {"values", axis.ticks},
                     {"labelExpr", kRatioLabel},
                     {"titleAnchor", "start"},
                     {"titleX", 0}});
  Json rows_y = y;
  rows_y["scale"]["domain"] = {0, out.row};
  Json spec = start("Speed and memory against " + c.variants.front().name + ", case " + c.name,
                    "circle and line: speed, 95 % interval; square: memory; open diamond: predicted");
  spec["width"] = kFigureWidth, spec["height"] = 27 * out.row;
  const auto point = [](const char* shape, const FigureColour& colour, bool filled) {
    return Json{
        {"type", "point"}, {"shape", shape},  {"color", colour.plain}, {"filled", filled}, {"size", filled ? 150 : 230},
        {"opacity", 1},    {"strokeWidth", 2}};
  };
  Json intervals = marks(out.intervals, {{"type", "rule"}, {"color", kBlue.plain}, {"strokeWidth", 4}}, x, rows_y);
  intervals["encoding"]["x2"] = {{"field", "x2"}};
  Json labels = edge_text(out.labels, rows_y, "left", false), names = edge_text(out.names, rows_y, "left", true);
  for (Json* beside : {&labels, &names}) (*beside)["encoding"]["x"]["value"] = kPlot + 16;
  spec["layer"] = {{{"data", rows({one})},
                    {"mark", {{"type", "rule"}, {"color", kInk.plain}, {"strokeWidth", 2}}},
                    {"encoding", {{"x", x}}}},
                   intervals,
                   marks(out.speeds, point("circle", kBlue, true), x, rows_y),
                   marks(out.memories, point("square", kPurple, true), x, rows_y),
                   marks(out.predictions, point("diamond", kOrange, false), x, rows_y),
                   names,
                   labels};
  return Figure{rounded(spec), "Against " + c.variants.front().name + " in case " + c.name + ", " + out.alt};
}

}  // namespace tenfold
