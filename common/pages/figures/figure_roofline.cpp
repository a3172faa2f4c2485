#include "common/pages/figures/figure_roofline.h"

#include <algorithm>
#include <cmath>

#include "common/base/text.h"
#include "common/pages/figures/figure_style.h"
#include "common/pages/figures/work_points.h"

namespace tenfold {
namespace {

using namespace figure;

constexpr int kWidth = 590, kHeight = 380;
constexpr const char* kPlain = "format(datum.value, '~g')";

struct Axis {
  double low, high;
  double place(double value, int pixels) const { return pixels * std::log(value / low) / std::log(high / low); }
  void include(double value) { low = std::min(low, value / 1.6), high = std::max(high, value * 1.6); }
};

/// The slope of memory up to the ridge point, then the flat roof of arithmetic.
std::vector<Json> roof_line(const WorkRoof& roof, const Axis& x) {
  const double ridge = roof.flops_per_s / roof.bytes_per_s;
  std::vector<Json> line = {{{"x", x.low}, {"y", x.low * roof.bytes_per_s / 1e9}}};
  if (ridge > x.low && ridge < x.high) line.push_back({{"x", ridge}, {"y", roof.flops_per_s / 1e9}});
  line.push_back({{"x", x.high}, {"y", std::min(roof.flops_per_s, x.high * roof.bytes_per_s) / 1e9}});
  return line;
}

/// The lesson's number beside each of its points, where it covers no other number.
std::vector<Json> numbers_of(const std::vector<WorkPoint>& points, const Axis& x, const Axis& y) {
  std::vector<Json> numbers;
  std::vector<std::pair<double, double>> taken;
  for (const WorkPoint& point : points) {
    const double right = x.place(point.intensity, kWidth), up = y.place(point.flops_per_s / 1e9, kHeight);
    if (std::any_of(taken.begin(), taken.end(), [&](const auto& other) {
          return std::abs(other.first - right) < 28 && std::abs(other.second - up) < 18;
        }))
      continue;
    taken.emplace_back(right, up);
    numbers.push_back({{"x", point.intensity}, {"y", point.flops_per_s / 1e9}, {"text", point.name.substr(0, 2)}});
  }
  return numbers;
}

}  // namespace

std::optional<Figure> roofline_figure(const std::vector<Result>& results, const std::string& lesson) {
  if (results.empty()) return std::nullopt;
  const auto one = work_roof(results.front().machine), all = work_roof(results.front().machine, /*all_cores=*/true);
  const std::vector<WorkPoint> points = work_points(results).points;
  if (!one || points.empty()) return std::nullopt;
  std::vector<WorkPoint> own, others;
  for (const WorkPoint& point : points)
    (point.name.substr(0, 2) == number_of_name(lesson) ? own : others).push_back(point);
  Axis x{one->flops_per_s / one->bytes_per_s / 4, one->flops_per_s / one->bytes_per_s * 4};
  Axis y{one->flops_per_s / 2e9, one->flops_per_s / 1e9 * 1.6};
  if (all) y.include(all->flops_per_s / 1e9);
  for (const WorkPoint& point : points) x.include(point.intensity), y.include(point.flops_per_s / 1e9);

  const Json right =
      quantity("x", {{"type", "log"}, {"domain", {x.low, x.high}}, {"nice", false}},
               {{"title", "FLOP per byte"}, {"labelExpr", kPlain}, {"values", powers_of_ten(x.low, x.high)}});
  const Json up = quantity("y", {{"type", "log"}, {"domain", {y.low, y.high}}, {"nice", false}},
                           {{"title", "GFLOP/s"}, {"labelExpr", kPlain}, {"values", powers_of_ten(y.low, y.high)}});
  Json layers = Json::array();
  const auto add_roof = [&](const WorkRoof& roof, const FigureColour& colour, const char* name, bool dashed) {
    Json mark = {{"type", "line"}, {"color", colour.plain}, {"strokeWidth", 3}, {"clip", true}};
    if (dashed) mark["strokeDash"] = {9, 5};
    layers.push_back({{"data", rows(roof_line(roof, x))}, {"mark", mark}, {"encoding", {{"x", right}, {"y", up}}}});
    Json text = text_mark("right", colour, true);
    text["dy"] = -13;
    layers.push_back({{"data", rows({{{"x", x.high}, {"y", roof.flops_per_s / 1e9}, {"text", name}}})},
                      {"mark", text},
                      {"encoding", {{"x", right}, {"y", up}, {"text", {{"field", "text"}, {"type", "nominal"}}}}}});
  };
  add_roof(*one, kBlue, "one core", false);
  if (all) add_roof(*all, kPurple, "all cores", true);
  const auto add_points = [&](const std::vector<WorkPoint>& shown, const FigureColour& colour, const char* shape) {
    std::vector<Json> values;
    for (const WorkPoint& point : shown) values.push_back({{"x", point.intensity}, {"y", point.flops_per_s / 1e9}});
    if (values.empty()) return;
    layers.push_back({{"data", rows(values)},
                      {"mark",
                       {{"type", "point"},
                        {"shape", shape},
                        {"filled", true},
                        {"size", 90},
                        {"opacity", 1},
                        {"color", colour.plain}}},
                      {"encoding", {{"x", right}, {"y", up}}}});
  };
  add_points(others, kInk, "circle");
  add_points(own, kOrange, "diamond");
  if (!others.empty()) {
    Json text = text_mark("left", kInk);
    text["dx"] = 8;
    layers.push_back({{"data", rows(numbers_of(others, x, y))},
                      {"mark", text},
                      {"encoding", {{"x", right}, {"y", up}, {"text", {{"field", "text"}, {"type", "nominal"}}}}}});
  }
  Json spec = start("Where the lessons' steps lie",
                    "circles: baselines of the lessons with these numbers; diamonds: this lesson");
  spec["width"] = kWidth, spec["height"] = kHeight, spec["layer"] = layers;
  const auto reached = [](const std::vector<WorkPoint>& of) {
    double low = of.front().flops_per_s, high = low;
    for (const WorkPoint& point : of) low = std::min(low, point.flops_per_s), high = std::max(high, point.flops_per_s);
    return human_number(low / 1e9) + " to " + human_number(high / 1e9) + " GFLOP/s";
  };
  std::string alt = "A roofline: one core computes at most " + human_number(one->flops_per_s / 1e9) +
                    " GFLOP/s and copies " + human_number(one->bytes_per_s / 1e9) + " GB/s";
  if (!others.empty())
    alt += "; " + std::to_string(others.size()) + (others.size() == 1 ? " step" : " steps") +
           " of other lessons: " + reached(others);
  if (!own.empty()) alt += "; this lesson's variants: " + reached(own);
  return Figure{rounded(spec), alt};
}

}  // namespace tenfold
