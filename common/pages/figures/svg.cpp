#include "common/pages/figures/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "common/base/text.h"

namespace tenfold {
namespace {

constexpr double kNames = 210, kWidth = 860, kText = 190, kRow = 26;

std::string num(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

std::string attr(const char* name, double value) { return std::string(" ") + name + "=\"" + num(value) + "\""; }

std::string text_at(double x, double y, const std::string& text, const char* anchor = "start", const char* kind = "") {
  return "<text" + attr("x", x) + attr("y", y) + " text-anchor=\"" + anchor + "\"" +
         (*kind ? " class=\"" + std::string(kind) + "\"" : "") + ">" + escape_html(text) + "</text>";
}

std::string rect(double x, double y, double width, double height, const std::string& kind, const std::string& hint) {
  return "<rect" + attr("x", x) + attr("y", y) + attr("width", std::max(width, 0.5)) + attr("height", height) +
         " class=\"" + kind + "\"><title>" + escape_html(hint) + "</title></rect>";
}

std::string line(double x1, double y1, double x2, double y2, const char* kind) {
  return "<line" + attr("x1", x1) + attr("y1", y1) + attr("x2", x2) + attr("y2", y2) + " class=\"" + kind + "\"/>";
}

std::string open(double height, const std::string& label) {
  return "<svg viewBox=\"0 0 " + num(kWidth) + " " + num(height) + "\" role=\"img\" aria-label=\"" +
         escape_html(label) + "\">";
}

std::string shorten(const std::string& name) {
  if (display_width(name) <= 30) return name;
  size_t end = 0;
  for (size_t seen = 0; end < name.size() && seen < 28; ++end) {
    if (end + 1 >= name.size() || (static_cast<unsigned char>(name[end + 1]) & 0xC0) != 0x80) ++seen;
  }
  return name.substr(0, end) + "...";
}

}  // namespace

std::vector<double> powers_of_ten(double least, double most) {
  std::vector<double> powers;
  const auto last = static_cast<int>(std::floor(std::log10(most)));
  for (auto exponent = static_cast<int>(std::ceil(std::log10(least))); exponent <= last; ++exponent)
    powers.push_back(std::pow(10, exponent));
  return powers;
}

std::string interval_mark(const RatioBar& bar, double far) {
  constexpr double kSmall = 230, kMiddle = 9;
  const auto x = [&](double ratio) {
    return std::clamp(kSmall / 2 + (kSmall / 2 - 6) * std::log(ratio) / std::log(far), 4.0, kSmall - 4);
  };
  std::string mark =
      "<circle" + attr("cx", x(bar.ratio)) + attr("cy", kMiddle) + " r=\"4\" class=\"" + bar.kind + "\"/>";
  if (std::abs(std::log(bar.ratio)) > std::log(far))
    mark = "<polygon points=\"" + std::string(bar.ratio > 1 ? "220,3 230,9 220,15" : "10,3 0,9 10,15") + "\" class=\"" +
           bar.kind + "\"/>";
  const std::string words =
      human_ratio(bar.ratio) + ", interval " + human_ratio(bar.low) + " to " + human_ratio(bar.high);
  return "<svg class=\"interval\" viewBox=\"0 0 230 18\" role=\"img\" aria-label=\"" + words + "\"><title>" + words +
         "</title>" + line(kSmall / 2, 0, kSmall / 2, 18, "axis") +
         line(x(bar.low), kMiddle, x(bar.high), kMiddle, "whisker") + line(x(bar.low), 5, x(bar.low), 13, "whisker") +
         line(x(bar.high), 5, x(bar.high), 13, "whisker") + mark + "</svg>";
}

std::string roofline_chart(const std::vector<WorkPoint>& points, double flops_per_s, double bytes_per_s) {
  if (points.empty() || !(flops_per_s > 0) || !(bytes_per_s > 0)) return "";
  const double ridge = flops_per_s / bytes_per_s;
  double left = ridge / 2, right = ridge * 2, low = flops_per_s / 2, high = flops_per_s * 2;
  for (const WorkPoint& point : points) {
    left = std::min(left, point.intensity / 1.5), right = std::max(right, point.intensity * 1.5);
    low = std::min(low, point.flops_per_s / 1.5), high = std::max(high, point.flops_per_s * 1.5);
  }
  constexpr double kLeft = 80, kRight = kWidth - 20, kTop = 14, kBottom = 330;
  const auto x = [&](double v) { return kLeft + (kRight - kLeft) * std::log(v / left) / std::log(right / left); };
  const auto y = [&](double v) { return kBottom - (kBottom - kTop) * std::log(v / low) / std::log(high / low); };
  std::string out =
      open(370, "roofline of " + std::to_string(points.size()) + " points; the table below has their numbers");
  out += line(kLeft, kTop, kLeft, kBottom, "axis") + line(kLeft, kBottom, kRight, kBottom, "axis");
  for (const double v : powers_of_ten(left, right))
    out +=
        line(x(v), kBottom, x(v), kBottom + 5, "axis") + text_at(x(v), kBottom + 19, human_number(v), "middle", "dim");
  for (const double v : powers_of_ten(low, high))
    out +=
        line(kLeft - 5, y(v), kLeft, y(v), "axis") + text_at(kLeft - 8, y(v) + 4, human_number(v / 1e9), "end", "dim");
  out += text_at(kRight, kBottom + 36, "FLOP per byte", "end", "dim") +
         text_at(kLeft + 6, kTop + 8, "GFLOP/s", "start", "dim");
  const double foot = std::max(left, low / bytes_per_s);  // where the slope enters the picture
  if (foot < ridge) out += line(x(foot), y(foot * bytes_per_s), x(ridge), y(flops_per_s), "roof");
  out += line(x(std::max(ridge, left)), y(flops_per_s), kRight, y(flops_per_s), "roof");
  std::vector<std::pair<double, double>> numbers;
  for (size_t i = 0; i < points.size(); ++i) {
    const WorkPoint& point = points[i];
    out += "<circle" + attr("cx", x(point.intensity)) + attr("cy", y(point.flops_per_s)) +
           " r=\"4\" class=\"point\"><title>" +
           escape_html(point.name + ": " + human_number(point.intensity) + " FLOP per byte, " +
                       human_number(point.flops_per_s / 1e9) + " GFLOP/s") +
           "</title></circle>";
    // A number that would cover another one is left to the table and to the point's own title.
    const double from = x(point.intensity) + 6, base = y(point.flops_per_s) - 4;
    if (std::any_of(numbers.begin(), numbers.end(), [&](const auto& other) {
          return std::abs(other.first - from) < 18 && std::abs(other.second - base) < 12;
        }))
      continue;
    numbers.emplace_back(from, base);
    out += text_at(from, base, std::to_string(i + 1));
  }
  return out + "</svg>";
}

std::string ratio_chart(const std::vector<RatioBar>& bars) {
  if (bars.empty()) return "";
  double far = std::log(1.25);  // small differences must not fill the page
  for (const RatioBar& bar : bars)
    far = std::max({far, std::abs(std::log(bar.low)), std::abs(std::log(bar.high)), std::abs(std::log(bar.ratio))});
  const bool left = std::any_of(bars.begin(), bars.end(), [](const RatioBar& bar) { return bar.low < 0.99; });
  const bool right = std::any_of(bars.begin(), bars.end(), [](const RatioBar& bar) { return bar.high > 1.01; });
  const double room = kWidth - kNames - kText, margin = left && right ? room / 2 : left ? room - 20 : 20;
  const double zero = kNames + margin, scale = (left && right ? room / 2 : room - 20) / far;
  const auto x = [&](double ratio) {
    return zero + std::clamp(std::log(ratio) * scale, -margin, kWidth - kText - zero);
  };

  const double height = kRow * static_cast<double>(bars.size()) + 22;
  std::string out = open(height, "items per second relative to the baseline");
  out += line(zero, 0, zero, height - 18, "axis") + text_at(zero, height - 5, "baseline = 1", "middle", "dim");
  for (size_t i = 0; i < bars.size(); ++i) {
    const RatioBar& bar = bars[i];
    const double top = kRow * static_cast<double>(i) + 4, middle = top + 9;
    const std::string hint = bar.name + ": " + human_ratio(bar.ratio) + ", interval " + human_ratio(bar.low) + " to " +
                             human_ratio(bar.high);
    out += text_at(kNames - 10, middle + 4, shorten(bar.name), "end");
    out += rect(std::min(zero, x(bar.ratio)), top, std::abs(x(bar.ratio) - zero), 18, bar.kind, hint);
    out += line(x(bar.low), middle, x(bar.high), middle, "whisker") +
           line(x(bar.low), middle - 5, x(bar.low), middle + 5, "whisker") +
           line(x(bar.high), middle - 5, x(bar.high), middle + 5, "whisker");
    out += text_at(kWidth - kText + 10, middle + 4,
                   human_ratio(bar.ratio) + "  (" + human_ratio(bar.low) + " to " + human_ratio(bar.high) + ")");
  }
  return out + "</svg>";
}

std::string ratio_curve(const std::vector<CurvePoint>& points, const CurveAxes& axes) {
  if (points.size() < 2) return "";
  constexpr double kAll = 440, kLeft = 50, kRight = kAll - 22, kTop = 10, kBottom = 172, kHeight = 212;
  const auto place = [&](double at) { return axes.is_log ? std::log(at) : at; };
  const double first = place(points.front().at), last = std::max(place(points.back().at), first + 1e-9);
  const auto x = [&](double at) { return kLeft + 14 + (kRight - kLeft - 14) * (place(at) - first) / (last - first); };
  const auto y = [&](double ratio) {
    return kBottom - (kBottom - kTop) * std::log(ratio / axes.low) / std::log(axes.high / axes.low);
  };
  std::string out = "<svg class=\"curve\" viewBox=\"0 0 " + num(kAll) + " " + num(kHeight) +
                    "\" role=\"img\" aria-label=\"" + escape_html(axes.what) + "\">";
  out += line(kLeft, kTop, kLeft, kBottom, "axis") + line(kLeft, kBottom, kRight, kBottom, "axis") +
         line(kLeft, y(1), kRight, y(1), "unit") + text_at(kLeft - 8, y(1) + 4, "1x", "end");
  double above = -1;  // rounded ticks may be equal, or beyond the axis
  for (const double tick : axes.ticks) {
    if (tick < axes.low || tick > axes.high || std::abs(y(tick) - y(1)) < 13 || std::abs(y(tick) - above) < 13)
      continue;
    above = y(tick);
    out += line(kLeft - 4, y(tick), kLeft, y(tick), "axis") +
           text_at(kLeft - 8, y(tick) + 4, human_number(tick) + "x", "end", "dim");
  }
  std::string corners, marks;
  double free = 0;  // names stand right of here
  for (const CurvePoint& point : points) {
    const double at = x(point.at);
    corners += num(at) + "," + num(y(point.ratio)) + " ";
    marks += line(at, y(point.low), at, y(point.high), "whisker") +
             line(at - 4, y(point.low), at + 4, y(point.low), "whisker") +
             line(at - 4, y(point.high), at + 4, y(point.high), "whisker") + "<circle" + attr("cx", at) +
             attr("cy", y(point.ratio)) + " r=\"4.5\" class=\"" + point.kind + "\"><title>" +
             escape_html(axes.setting + " " + point.value + ": " + human_ratio(point.ratio, point.low, point.high)) +
             "</title></circle>";
    out += line(at, kBottom, at, kBottom + 4, "axis");
    const double half = 3.8 * static_cast<double>(display_width(point.value));
    if (at - half < free) continue;
    free = at + half + 8;
    out += text_at(at, kBottom + 18, point.value, "middle", "dim");
  }
  return out + "<polyline points=\"" + corners + "\" class=\"curve\"/>" + marks +
         text_at(kRight, kBottom + 36, axes.setting, "end", "dim") + "</svg>";
}

std::string stacked_chart(const std::vector<StackedBar>& bars, const std::vector<std::string>& labels) {
  double longest = 0;
  for (const StackedBar& bar : bars) {
    double sum = 0;
    for (const double part : bar.parts) sum += part;
    longest = std::max(longest, sum);
  }
  if (!(longest > 0)) return "";
  const double scale = (kWidth - kNames - kText) / longest, height = kRow * static_cast<double>(bars.size()) + 24;
  std::string out = open(height, "where the time of a step goes");
  for (size_t i = 0; i < bars.size(); ++i) {
    const double top = kRow * static_cast<double>(i) + 4;
    double at = kNames, sum = 0;
    for (const double part : bars[i].parts) sum += part;
    out += text_at(kNames - 10, top + 13, shorten(bars[i].name), "end");
    for (size_t part = 0; part < bars[i].parts.size(); ++part) {
      const double width = bars[i].parts[part] * scale;
      if (!(width > 0)) continue;
      out += rect(
          at, top, width, 18, "part" + std::to_string(part),
          labels[part] + ": " + human_seconds(bars[i].parts[part]) + ", " + human_percent(bars[i].parts[part] / sum));
      at += width;
    }
    out += text_at(at + 8, top + 13, bars[i].total);
  }
  double at = kNames;
  for (size_t part = 0; part < labels.size(); ++part) {
    out += rect(at, height - 14, 10, 10, "part" + std::to_string(part), labels[part]) +
           text_at(at + 15, height - 5, labels[part], "start", "dim");
    at += 40 + 7.5 * static_cast<double>(labels[part].size());
  }
  return out + "</svg>";
}

std::string line_chart(const std::vector<Line>& lines, const LineAxes& axes) {
  double low = 0, high = 0;
  size_t longest = 0;
  for (const Line& line : lines) {
    for (const double value : line.values) {
      if (longest == 0) low = high = value;
      low = std::min(low, value), high = std::max(high, value);
      longest = std::max(longest, line.values.size());
    }
  }
  if (longest < 2) return "";
  if (axes.from_zero) low = std::min(low, 0.0);
  if (high - low < 1e-12) low -= 0.5, high += 0.5;
  const double left = 70, right = kWidth - kText, top = 8, bottom = 130, height = 152;
  // Lines of other lengths end where the longest does: they are the same step, cut into fewer points.
  const auto x = [&](size_t i, size_t points) {
    return left + (right - left) * static_cast<double>(i) / static_cast<double>(std::max<size_t>(points, 2) - 1);
  };
  const auto value_text = [&](double value) { return axes.text_of ? axes.text_of(value) : human_number(value); };
  const auto y = [&](double value) { return bottom - (bottom - top) * (value - low) / (high - low); };
  std::string out = open(std::max(height, 20 + 18 * static_cast<double>(lines.size())), axes.what);
  out += line(left, top, left, bottom, "axis") + line(left, bottom, right, bottom, "axis");
  out += text_at(left - 6, top + 6, value_text(high), "end", "dim") +
         text_at(left - 6, bottom, value_text(low), "end", "dim");
  out += text_at(right, bottom + 16, axes.last.empty() ? "step " + std::to_string(longest) : axes.last, "end", "dim") +
         text_at(left, bottom + 16, axes.first, "start", "dim");
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string kind = "line" + std::to_string(i % 6);
    std::string points;
    for (size_t j = 0; j < lines[i].values.size(); ++j)
      points += num(x(j, lines[i].values.size())) + "," + num(y(lines[i].values[j])) + " ";
    out += "<polyline points=\"" + points + "\" class=\"" + kind + "\"><title>" + escape_html(lines[i].name) +
           "</title></polyline>";
    const double row = 14 + 18 * static_cast<double>(i);
    out +=
        line(right + 10, row - 4, right + 26, row - 4, kind.c_str()) + text_at(right + 32, row, shorten(lines[i].name));
  }
  return out + "</svg>";
}

}  // namespace tenfold
