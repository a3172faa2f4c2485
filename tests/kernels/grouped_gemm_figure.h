#pragma once
// docs/figures/grouped_gemm_waste.svg, drawn from the schedule's functions: how much of the blocks' time is wasted as
// one expert gets more rows than the others.

#include <cstdio>
#include <string>
#include <vector>

#include "kernels/grouped_gemm/grouped_gemm_case.h"
#include "kernels/grouped_gemm/grouped_gemm_makespan.h"

namespace tenfold::test {

struct WasteFigure {
  static constexpr int64_t kRows = 16384, kExperts = 64, kColumns = 2048;
  static constexpr double kLeft = 64, kRight = 540, kTop = 30, kBottom = 246;
  /// The largest expert's rows over the mean; the first is an even routing.
  const std::vector<double> skews{1, 1.5, 2, 3, 4, 6, 8, 12, 16};

  struct Line {
    const char *name, *colour, *dash;
    int rung;
    double label_down;  ///< so that labels of neighbours do not meet
  };
  const std::vector<Line> lines{{"0 padded", "#d9730d", "", 0, -4},
                                {"1 launches", "#2f81f7", "7 4", 1, 12},
                                {"2 to 5, one list", "#2a9d4f", "2 3", 3, 5}};

  std::vector<int> routing(size_t point) const {
    if (point == 0) return kernels::even_routing(kRows, kExperts);
    const double largest = skews[point] * kRows / kExperts;
    return kernels::uneven_routing(kRows, kExperts, static_cast<int64_t>(largest));
  }
  double wasted(size_t point, int rung) const {
    return 1 - kernels::useful_share(routing(point), kColumns, kernels::kGroupedWaveAssumed, rung);
  }
  double x(size_t point) const {
    return kLeft + (kRight - kLeft) * static_cast<double>(point) / static_cast<double>(skews.size() - 1);
  }
  static double y(double share) { return kBottom - (kBottom - kTop) * share; }

  static std::string text(double value, const char* format = "%.1f") {
    char buffer[32];
    std::snprintf(buffer, sizeof(buffer), format, value);
    return buffer;
  }
  static std::string label(double at_x, double at_y, const std::string& words, const char* classes = "") {
    return "  <text class=\"" + std::string(classes) + "\" x=\"" + text(at_x) + "\" y=\"" + text(at_y) + "\">" + words +
           "</text>\n";
  }

  std::string percent(size_t point, int rung) const { return text(100 * wasted(point, rung), "%.0f %%"); }

  /// What the page says of it.
  std::string alt() const {
    const size_t last = skews.size() - 1;
    return "Padding wastes " + percent(0, 0) + " of the blocks' time for equal experts and " + percent(last, 0) +
           " where the largest has 16 times the mean; a launch for each expert " + percent(last, 1) +
           "; one list of tiles " + percent(last, 3);
  }

  std::string svg() const {
    const size_t last = skews.size() - 1;
    std::string out =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 310\" role=\"img\" aria-labelledby=\"title "
        "desc\">\n"
        "  <title id=\"title\">Wasted time of blocks against the skew of the routing</title>\n"
        "  <desc id=\"desc\">\n    Three lines over the largest expert's rows divided by the mean, from 1 to 16.";
    for (const Line& line : lines) {
      out += "\n    " + std::string(line.name) + ": from " + percent(0, line.rung) + " to " + percent(last, line.rung) +
             " of the blocks' time is wasted.";
    }
    out +=
        "\n  </desc>\n  <style>\n"
        "    text { font: 15px system-ui, -apple-system, \"Segoe UI\", Roboto, \"DejaVu Sans\", sans-serif; fill: "
        "#1f2328; "
        "}\n"
        "    .bold { font-weight: 600; }\n    .mid { text-anchor: middle; }\n    .end { text-anchor: end; }\n"
        "    .grid { stroke: #7d8590; stroke-opacity: 0.4; }\n"
        "    .line { fill: none; stroke-width: 2.5; }\n"
        "    @media (prefers-color-scheme: dark) { text { fill: #e6edf3; } }\n  </style>\n";
    out += label(8, 18, "wasted share of the blocks' time", "bold");
    for (const int share : {0, 25, 50, 75, 100}) {
      out +=
          "  <path class=\"grid\" d=\"M" + text(kLeft) + " " + text(y(share / 100.0)) + " H" + text(kRight) + "\"/>\n";
      out += label(kLeft - 8, y(share / 100.0) + 5, std::to_string(share) + " %", "end");
    }
    for (size_t point = 0; point <= last; ++point)
      out += label(x(point), kBottom + 20, text(skews[point], "%g"), "mid");
    out += label((kLeft + kRight) / 2, kBottom + 46, "rows of the largest expert, over the mean of all", "mid");
    for (const Line& line : lines) {
      std::string path;
      for (size_t point = 0; point <= last; ++point)
        path += (point == 0 ? "M" : " L") + text(x(point)) + " " + text(y(wasted(point, line.rung)));
      out += "  <path class=\"line\" stroke=\"" + std::string(line.colour) + "\"" +
             (*line.dash == 0 ? std::string() : " stroke-dasharray=\"" + std::string(line.dash) + "\"") + " d=\"" +
             path + "\"/>\n";
      out += label(kRight + 10, y(wasted(last, line.rung)) + line.label_down,
                   std::string(line.name) + ", " + percent(last, line.rung));
    }
    return out + "</svg>\n";
  }
};

}  // namespace tenfold::test
