#include "common/pages/figures/figure_curves.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "common/base/text.h"
#include "common/pages/figures/figure_style.h"
#include "common/pages/rows/sweeps.h"

namespace tenfold {
namespace {

using namespace figure;

constexpr int kPlotWidth = 640;

FigureColour region_colour(const std::string& region) {
  static const std::map<std::string, FigureColour> colours = {{"forward", kBlue},
                                                              {"backward", kPurple},
                                                              {"recompute", kOrange},
                                                              {"optimizer", kTeal},
                                                              {"communication", kPink}};
  const auto found = colours.find(region);
  return found == colours.end() ? kInk : found->second;
}

int64_t highest(const Timeline& timeline) {
  return timeline.bytes.empty() ? 0 : *std::max_element(timeline.bytes.begin(), timeline.bytes.end());
}

bool has_timeline(const VariantResult& variant) {
  return variant.timeline && variant.timeline->bytes.size() > 1 &&
         variant.timeline->bytes.size() == variant.timeline->region.size() && highest(*variant.timeline) > 0;
}

/// Neighbouring points of one region.
struct Run {
  std::string region;
  size_t first = 0, last = 0;
};
std::vector<Run> runs_of(const Timeline& timeline) {
  std::vector<Run> runs;
  for (size_t i = 0; i < timeline.region.size(); ++i) {
    if (runs.empty() || runs.back().region != timeline.region[i])
      runs.push_back({timeline.region[i], i, i});
    else
      runs.back().last = i;
  }
  return runs;
}

/// A name for each region, above its longest run, on the first of the lines where it has room. `top` is the first
/// line's height, `line` the way down to the next.
std::vector<Json> region_names(const std::vector<Run>& runs, double points, double top, double line) {
  std::map<std::string, Run> longest;
  for (const Run& run : runs) {
    Run& found = longest.try_emplace(run.region, run).first->second;
    if (run.last - run.first > found.last - found.first) found = run;
  }
  std::vector<Run> ordered;
  for (const auto& [region, run] : longest) ordered.push_back(run);
  std::sort(ordered.begin(), ordered.end(), [](const Run& a, const Run& b) { return a.first < b.first; });
  std::vector<Json> names;
  std::array<double, 2> ends = {0, 0};
  for (const Run& run : ordered) {
    const double width = text_width(run.region), middle = static_cast<double>(run.first + run.last) / 2 / points,
                 from = std::clamp(kPlotWidth * middle - width / 2, 0.0, kPlotWidth - width);
    const size_t on = from >= ends[0] ? 0 : 1;
    const double left = std::max(from, ends[on]);
    ends[on] = left + width + 14;
    names.push_back({{"x", (left + width / 2) / kPlotWidth},
                     {"y", top - line * static_cast<double>(on)},
                     {"text", run.region},
                     {"colour", region_colour(run.region).plain}});
  }
  return names;
}

/// What stays, and the gradients on top of it, below the step's own bytes; empty where they are not told apart.
std::vector<Json> bands_of(const Timeline& timeline, double points, double scale) {
  std::vector<Json> bands;
  if (!timeline.gradients || !timeline.states) return bands;
  for (size_t i = 0; i < timeline.gradients->size(); ++i) {
    const double at = static_cast<double>(i) / points, states = static_cast<double>(*timeline.states) / scale;
    const double gradients = static_cast<double>((*timeline.gradients)[i]) / scale;
    bands.push_back({{"x", at}, {"y", 0}, {"y2", states}, {"run", 0}, {"colour", kInk.plain}});
    bands.push_back({{"x", at}, {"y", states}, {"y2", states + gradients}, {"run", 1}, {"colour", kOlive.plain}});
  }
  return bands;
}

Json panel(const VariantResult& variant, double most, const std::string& about) {
  const auto [unit, bytes] = byte_unit(most);
  const Timeline& timeline = *variant.timeline;
  const double points = std::max(1.0, static_cast<double>(timeline.bytes.size()) - 1);
  const std::vector<Run> runs = runs_of(timeline);
  const double scale = bytes;
  std::vector<Json> areas;
  const auto point = [&](size_t i) {
    return Json{{"x", static_cast<double>(i) / points}, {"y", static_cast<double>(timeline.bytes[i]) / scale}};
  };
  for (size_t run = 0; run < runs.size(); ++run) {
    // With the next one's first point, so that no gap is left.
    for (size_t i = runs[run].first; i <= std::min(runs[run].last + 1, timeline.bytes.size() - 1); ++i) {
      areas.push_back(point(i));
      areas.back()["run"] = run;
      areas.back()["colour"] = region_colour(runs[run].region).plain;
    }
  }
  const Json x = quantity("x", {{"domain", {0, 1}}, {"nice", false}}, nullptr);
  const Json y =
      quantity("y", {{"domain", {0, 1.42 * most / scale}}, {"nice", false}},
               {{"title", unit + " alive"}, {"tickCount", 4}, {"minExtent", 62}, {"maxExtent", 62}, {"titleX", -58}});
  Json unstacked = y;
  unstacked["stack"] = nullptr;
  const Json colour = {{"field", "colour"}, {"type", "nominal"}, {"scale", nullptr}};
  const auto at =
      static_cast<size_t>(std::max_element(timeline.bytes.begin(), timeline.bytes.end()) - timeline.bytes.begin());
  Json made = {
      {"title", {{"text", about}, {"fontSize", kFigureText}, {"offset", 6}, {"frame", "group"}}},
      {"width", kPlotWidth},
      {"height", 200},
      {"layer",
       {{{"data", rows(areas)},
         {"mark", {{"type", "area"}, {"line", false}}},
         {"encoding", {{"x", x}, {"y", unstacked}, {"color", colour}, {"detail", {{"field", "run"}}}}}},
        {{"data", rows({{{"y", most / scale}}})},
         {"mark", {{"type", "rule"}, {"color", kInk.plain}, {"strokeDash", {6, 4}}, {"strokeWidth", 2}}},
         {"encoding", {{"y", y}}}},
        {{"data", rows({point(at)})},
         {"mark", {{"type", "point"}, {"filled", true}, {"size", 110}, {"opacity", 1}, {"color", kInk.plain}}},
         {"encoding", {{"x", x}, {"y", y}}}},
        {{"data", rows(region_names(runs, points, 1.34 * most / scale, 0.15 * most / scale))},
         {"mark", text_mark("center", kInk, true)},
         {"encoding", {{"x", x}, {"y", y}, {"color", colour}, {"text", {{"field", "text"}, {"type", "nominal"}}}}}}}}};
  if (const std::vector<Json> bands = bands_of(timeline, points, scale); !bands.empty()) {
    made["layer"].insert(made["layer"].begin() + 1, Json{{"data", rows(bands)},
                                                         {"mark", {{"type", "area"}, {"line", false}}},
                                                         {"encoding",
                                                          {{"x", x},
                                                           {"y", unstacked},
                                                           {"y2", {{"field", "y2"}}},
                                                           {"color", colour},
                                                           {"detail", {{"field", "run"}}}}}});
  }
  return made;
}

std::string swept_technique(const std::vector<CaseResult>& points, const std::string& wanted) {
  for (const CaseResult& c : points) {
    for (const Verdict& verdict : c.verdicts) {
      if (wanted.empty() ? verdict.speed.ratio.has_value() : verdict.technique == wanted) return verdict.technique;
    }
  }
  return "";
}

struct Drawn {
  std::string name;
  FigureColour colour;
  std::vector<int> dash;
  std::optional<double> SweptPoint::* ratio;
  const char* shape;
};

/// Names at the curves' right ends, pushed apart where they would cover each other; y in logs.
std::vector<double> apart(std::vector<double> ys, double least) {
  std::vector<size_t> order(ys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ys[a] > ys[b]; });
  for (size_t i = 1; i < order.size(); ++i) ys[order[i]] = std::min(ys[order[i]], ys[order[i - 1]] - least);
  return ys;
}

}  // namespace

std::optional<Figure> memory_figure(const CaseResult& c, const std::string& technique) {
  if (c.variants.size() < 2 || !has_timeline(c.variants.front())) return std::nullopt;
  const VariantResult& baseline = c.variants.front();
  const VariantResult* chosen = nullptr;
  for (size_t i = 1; i < c.variants.size(); ++i) {
    const VariantResult& variant = c.variants[i];
    if (!has_timeline(variant) || variant.status != "ok" || (!technique.empty() && variant.name != technique)) continue;
    if (!chosen || highest(*variant.timeline) < highest(*chosen->timeline)) chosen = &variant;
  }
  if (!chosen) return std::nullopt;
  const auto most_of = [](const VariantResult& variant) { return static_cast<double>(highest(*variant.timeline)); };
  const auto about = [&](const VariantResult& variant) {
    return variant.name + ": peak " + human_bytes(most_of(variant));
  };
  const double most = std::max(most_of(baseline), most_of(*chosen));
  Json spec =
      start("Memory over one step, case " + c.name,
            baseline.timeline->gradients
                ? "from below: parameters and optimizer state, gradients, all else by pass; dashed: the higher peak"
                : "left to right in the step's order; dashed: the higher peak");
  spec["vconcat"] = {panel(baseline, most, about(baseline)), panel(*chosen, most, about(*chosen))};
  spec["spacing"] = 18;
  const auto alt_of = [&](const VariantResult& variant) {
    const auto& bytes = variant.timeline->bytes;
    const auto at = static_cast<size_t>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
    return about(variant) + " in " + variant.timeline->region[at];
  };
  return Figure{rounded(spec),
                "Bytes alive over one step of case " + c.name + ". " + alt_of(baseline) + "; " + alt_of(*chosen)};
}

std::optional<Figure> sweep_figure(const std::vector<CaseResult>& cases, const std::string& wanted) {
  const std::string technique = swept_technique(cases, wanted);
  bool numbers = true;
  const std::vector<SweptPoint> points = swept_points(cases, technique, &numbers);
  if (points.size() < 2) return std::nullopt;
  const std::string setting = cases.front().sweep->setting;
  const std::string name = cases.front().name.substr(0, cases.front().name.find(" " + setting + "="));
  const bool log_axis = numbers && spans_logs(points);
  const std::vector<Drawn> curves = {{"speed", kBlue, {}, &SweptPoint::speed, "circle"},
                                     {"memory", kPurple, {2, 4}, &SweptPoint::memory, "square"},
                                     {"predicted speed", kOrange, {9, 5}, &SweptPoint::predicted, "diamond"}};
  std::vector<double> all, ticks;
  std::string expression;
  for (const SweptPoint& p : points) {
    for (const auto& value : {p.speed, p.low, p.high, p.memory, p.predicted}) {
      if (value) all.push_back(*value);
    }
    ticks.push_back(p.number);
    // The axis says what was typed.
    expression += "datum.value == " + Json(p.number).dump() + " ? " + Json(p.value).dump() + " : ";
  }
  const RatioAxis axis = ratio_axis(all);
  constexpr int kHeight = 330, kWidth = 480;
  const Json x = quantity("x",
                          {{"type", log_axis ? "log" : "linear"},
                           {"domain", {points.front().number, points.back().number}},
                           {"nice", false},
                           {"zero", false},
                           {"padding", 14}},
                          {{"title", setting}, {"values", ticks}, {"labelExpr", expression + "''"}, {"grid", false}});
  const Json y = quantity("y", {{"type", "log"}, {"domain", {axis.low, axis.high}}, {"nice", false}},
                          {{"title", nullptr}, {"values", axis.ticks}, {"labelExpr", kRatioLabel}});
  Json layers = Json::array();
  layers.push_back({{"data", rows({{{"y", 1}}})},
                    {"mark", {{"type", "rule"}, {"color", kInk.plain}, {"strokeWidth", 2}}},
                    {"encoding", {{"y", y}}}});
  std::string alt =
      technique + " against " + cases.front().variants.front().name + " in case " + name + " over " + setting;
  std::vector<Json> names;
  std::vector<double> heights;
  for (const Drawn& curve : curves) {
    std::vector<Json> values, intervals;
    for (const SweptPoint& p : points) {
      const auto& ratio = p.*curve.ratio;
      if (!ratio) continue;
      values.push_back({{"x", p.number}, {"y", *ratio}});
      if (curve.ratio == &SweptPoint::speed && p.low && p.high)
        intervals.push_back({{"x", p.number}, {"y", *p.low}, {"y2", *p.high}});
    }
    if (values.empty()) continue;
    const Json last = values.back()["y"];
    alt += (names.empty() ? ": " : ", ") + curve.name + " " + human_ratio(values.front()["y"].get<double>()) + " to " +
           human_ratio(last.get<double>());
    names.push_back({{"text", curve.name}, {"colour", curve.colour.plain}});
    heights.push_back(std::log(last.get<double>()));
    if (!intervals.empty()) {
      for (const char* type : {"area", "rule"}) {
        Json mark = {{"type", type}, {"color", curve.colour.plain}};
        if (std::string(type) == "area")
          mark["opacity"] = 0.25;
        else
          mark["strokeWidth"] = 3;
        layers.push_back(
            {{"data", rows(intervals)}, {"mark", mark}, {"encoding", {{"x", x}, {"y", y}, {"y2", {{"field", "y2"}}}}}});
      }
    }
    Json line = {{"type", "line"}, {"color", curve.colour.plain}, {"strokeWidth", 3}};
    if (!curve.dash.empty()) line["strokeDash"] = curve.dash;
    line["point"] = {{"shape", curve.shape}, {"size", 110}, {"color", curve.colour.plain}, {"opacity", 1}};
    layers.push_back({{"data", rows(values)}, {"mark", line}, {"encoding", {{"x", x}, {"y", y}}}});
  }
  heights = apart(heights, 24.0 / kHeight * std::log(axis.high / axis.low));
  for (size_t i = 0; i < names.size(); ++i) names[i]["y"] = std::exp(heights[i]);
  layers.push_back({{"data", rows(names)},
                    {"mark", text_mark("left", kInk, true)},
                    {"encoding",
                     {{"x", {{"value", kWidth + 12}}},
                      {"y", y},
                      {"color", {{"field", "colour"}, {"type", "nominal"}, {"scale", nullptr}}},
                      {"text", {{"field", "text"}, {"type", "nominal"}}}}}});
  if (const auto crossing = crossover(points); crossing && numbers) {
    const std::string text = decided_text(points, crossing->rising);
    alt += "; " + text;
    layers.push_back(
        {{"data", rows({{{"x", crossing->at}, {"text", text}}})},
         {"layer",
          {{{"mark", {{"type", "rule"}, {"color", kInk.plain}, {"strokeDash", {3, 3}}, {"strokeWidth", 2}}},
            {"encoding", {{"x", x}}}},
           {{"mark", text_mark("center", kInk)},
            {"encoding", {{"x", x}, {"y", {{"value", -12}}}, {"text", {{"field", "text"}, {"type", "nominal"}}}}}}}}});
  }
  Json spec = start(technique + " against " + cases.front().variants.front().name, "times the baseline, case " + name);
  spec["width"] = kWidth, spec["height"] = kHeight;
  spec["title"]["offset"] = 34;
  spec["layer"] = layers;
  return Figure{rounded(spec), alt};
}

}  // namespace tenfold
