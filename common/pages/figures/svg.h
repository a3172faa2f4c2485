#pragma once
// The few charts of the report, as inline SVG. Colours come from the page's style sheet (classes), so both schemes
// work.

#include <optional>
#include <string>
#include <vector>

namespace tenfold {

struct RatioBar {
  std::string name;
  double ratio = 1, low = 1, high = 1;
  std::string kind;  ///< CSS class: "faster", "slower", "same" or "open"
};
/// A dot and its interval around 1, small enough for a table's cell. The axis reaches from 1/far to far.
std::string interval_mark(const RatioBar& bar, double far);
/// Horizontal bars from 1 on a logarithmic axis, each with its interval as a whisker and its ratio in words.
std::string ratio_chart(const std::vector<RatioBar>& bars);

/// A point of a sweep: where it stands on the axis, and what was typed there.
struct CurvePoint {
  std::string value;
  double at = 0, ratio = 1, low = 1, high = 1;
  std::string kind;  ///< as of RatioBar
};
struct CurveAxes {
  std::string what, setting;  ///< for screen readers; below the axis
  bool is_log = false;        ///< the setting's axis; that of ratios always is
  double low = 1, high = 1;   ///< ends of the axis of ratios
  std::vector<double> ticks;  ///< on it; 1 has a line of its own
};
/// Ratios over a setting, from the lowest `at` to the highest, with intervals and the line at 1x. Names of points that
/// would cover each other are left out. Empty text with fewer than two points.
std::string ratio_curve(const std::vector<CurvePoint>& points, const CurveAxes& axes);

struct StackedBar {
  std::string name, total;
  std::vector<double> parts;  ///< one per label
};
/// Horizontal stacked bars on one linear axis, parts in classes part0, part1, ...
std::string stacked_chart(const std::vector<StackedBar>& bars, const std::vector<std::string>& labels);

struct Line {
  std::string name;
  std::vector<double> values;
};
struct LineAxes {
  std::string what = "loss over steps";            ///< for screen readers
  std::string first = "step 1", last = "";         ///< below the ends; the last step's number when empty
  bool from_zero = false;                          ///< else from the lowest value
  std::string (*text_of)(double value) = nullptr;  ///< of the upright axis; human_number when null
};
/// Lines from left to right, in classes line0, line1, ...; empty text when no line has two points.
std::string line_chart(const std::vector<Line>& lines, const LineAxes& axes = {});

struct WorkPoint {
  std::string name;
  double intensity = 0, flops_per_s = 0;  ///< operations for each byte; rate
};
/// Those from `least` to `most`.
std::vector<double> powers_of_ten(double least, double most);

/// Points under a roof of `bytes_per_s` and `flops_per_s`, both axes logarithmic; points carry their number from 1.
std::string roofline_chart(const std::vector<WorkPoint>& points, double flops_per_s, double bytes_per_s);

}  // namespace tenfold
