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
/// Horizontal bars from 1 on a logarithmic axis, each with its interval as a whisker and its ratio in words.
std::string ratio_chart(const std::vector<RatioBar>& bars);

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
/// Lines over the step number, in classes line0, line1, ...; empty text when no line has two points.
std::string line_chart(const std::vector<Line>& lines);

}  // namespace tenfold
