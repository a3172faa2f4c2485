#include "common/pages/report/html_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/base/text.h"
#include "common/pages/figures/svg.h"
#include "common/pages/rows/headlines.h"
#include "common/pages/rows/prediction_errors.h"

#include "tests/support/sample.h"

namespace tenfold {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

/// Every opened element is closed in the right order; enough of HTML for pages that we write ourselves.
std::string unbalanced(const std::string& page) {
  std::vector<std::string> open;
  for (size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    if (page.compare(at, 7, "<style>") == 0) {
      at = page.find("</style>", at) + 7;
      continue;
    }
    if (page.compare(at, 8, "<script>") == 0) {
      at = page.find("</script>", at) + 8;
      continue;
    }
    const std::string tag = page.substr(at + 1, page.find('>', at) - at - 1);
    const size_t first = tag[0] == '/' ? 1 : 0;
    const std::string name = tag.substr(first, tag.find_first_of(" />", 1) - first);
    if (tag[0] == '!' || tag.back() == '/' || name == "meta" || name == "br" || name == "input" || name == "wbr")
      continue;
    if (tag[0] != '/') {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return "</" + name + "> closes <" + (open.empty() ? "" : open.back()) + "> at byte " + std::to_string(at);
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : "<" + open.back() + "> stays open";
}

TEST(HtmlReport, ShowsVerdictsChartsAndWhatDidNotRun) {
  const std::string page = html_report({sample_result()}, {{"52_ddp", "needs two ranks"}});
  for (const char* part : {"Sample CPU", "SLOWER 0.80", "SMALLER 0.250x", "trap caught", "needs a CUDA device",
                           "52_ddp", "needs two ranks", "validation loss", "prefers-color-scheme: dark",
                           "class=\"whisker\"", "class=\"part2\"", "<polyline", "losses within 1e-05"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(unbalanced(page), "");
}

TEST(HtmlReport, AsksNothingOfTheNetwork) {
  const std::string page = html_report({sample_result()});
  for (const char* part : {"<script ", "<link", "<img", "<iframe", "@import", "url(", "http://", "https://", "src="}) {
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  }
}

// Bars, whiskers and words stay inside the picture, however large the ratios are.
TEST(RatioChart, StaysInsideItsFrame) {
  for (const std::vector<RatioBar>& bars :
       std::vector<std::vector<RatioBar>>{{{"a", 50, 40, 60, "faster"}},
                                          {{"a", 0.01, 0.005, 0.02, "slower"}},
                                          {{"a", 30, 20, 40, "faster"}, {"b", 0.9, 0.5, 1.3, "open"}},
                                          {{"a", 1, 0.999, 1.001, "same"}}}) {
    const std::string chart = ratio_chart(bars);
    for (const std::string name : {" x=\"", " x1=\"", " x2=\""}) {
      for (size_t at = chart.find(name); at != std::string::npos; at = chart.find(name, at + 1)) {
        const double x = std::stod(chart.substr(at + name.size()));
        EXPECT_GE(x, 0) << chart;
        EXPECT_LE(x, 860) << chart;
      }
    }
    for (size_t at = chart.find("<rect"); at != std::string::npos; at = chart.find("<rect", at + 1)) {
      const double x = std::stod(chart.substr(chart.find("x=\"", at) + 3)),
                   width = std::stod(chart.substr(chart.find("width=\"", at) + 7));
      EXPECT_LE(x + width, 680) << "a bar covers the words beside it: " << chart;
    }
  }
}

TEST(HtmlReport, EscapesEveryText) {
  const std::string evil = "<script>\"'&";
  Result result = sample_result();
  Machine& machine = result.machine;
  result.title = result.lesson = result.started_at = result.commit = evil;
  machine.cpu = machine.os = machine.libtorch = machine.driver = machine.cuda = machine.gpus[0].name = evil;
  CaseResult& c = result.cases[0];
  c.name = c.size = c.device = c.dtype = c.backend = c.preset = evil;
  c.ranks = 2;
  for (size_t i = 0; i < c.variants.size(); ++i) {
    c.variants[i].name = evil + std::to_string(i), c.variants[i].reason = evil, c.variants[i].source = evil;
    c.variants[i].quality[evil] = {1}, c.variants[i].notes[evil] = {1, evil};
  }
  for (size_t i = 0; i < c.verdicts.size(); ++i) {
    c.verdicts[i].technique = c.variants[i + 1].name;
    if (c.verdicts[i].agreement) c.verdicts[i].agreement->rule = evil;
  }
  Result sweep = result, kernels = result;
  sweep.cases.clear();
  for (int64_t point : {1, 2}) {
    CaseResult swept = c;
    swept.sweep = SweepPoint{evil, evil + std::to_string(point)};
    swept.name = evil + " " + evil + "=" + std::to_string(point);
    for (Verdict& verdict : swept.verdicts) verdict.speed = {evil, 1, 0.9, 1.1};
    sweep.cases.push_back(swept);
  }
  kernels.lesson = "40" + evil;
  kernels.cases[0].kind = "survey";
  const std::string page = html_report({result, kernels}, {{evil, evil}}, {sweep});
  EXPECT_NE(page.find("<table class=\"counts\">"), std::string::npos);
  EXPECT_NE(page.find("<svg class=\"curve\""), std::string::npos);
  EXPECT_EQ(count(page, "<script"), 1u);  // the page's own
  EXPECT_EQ(page.find(evil), std::string::npos);
  EXPECT_GT(count(page, "&lt;script&gt;&quot;&#39;&amp;"), 20u);
  EXPECT_EQ(unbalanced(page), "");
}

TEST(HtmlReport, FirstScreenNamesGainSavingAndSurprises) {
  Result result = sample_result();
  const std::string page = html_report({result});
  EXPECT_NE(page.find("Largest saving of memory"), std::string::npos);
  EXPECT_NE(page.find("surprise"), std::string::npos);
  result.title = "{{lessons}}";  // what a text says is never filled in
  EXPECT_NE(html_report({result}).find("{{lessons}}"), std::string::npos);
}

TEST(RooflineChart, StaysInsideItsFrame) {
  const std::string chart = roofline_chart({{"slow", 0.001, 1e6}, {"fast", 1000, 1e13}}, 1e11, 1e10);
  for (const std::string name : {" x1=\"", " x2=\"", " cx=\""}) {
    for (size_t at = chart.find(name); at != std::string::npos; at = chart.find(name, at + 1)) {
      const double x = std::stod(chart.substr(at + name.size()));
      EXPECT_GE(x, 0) << chart;
      EXPECT_LE(x, 860) << chart;
    }
  }
  EXPECT_EQ(count(chart, "<circle"), 2u);
  EXPECT_EQ(roofline_chart({}, 1, 1), "");
}

TEST(HtmlReport, ShowsWhatIsAliveOverAStepWhereItIsKnown) {
  Result result = sample_result();
  const std::string heading = "Bytes alive over one step";
  EXPECT_EQ(html_report({result}).find(heading), std::string::npos);
  result.cases[0].variants[0].timeline = Timeline{{1 << 20, 3 << 20, 2 << 20}, {"forward", "forward", "backward"}};
  result.cases[0].variants[1].timeline = Timeline{{1 << 20, 2 << 20}, {"forward", "backward"}};
  const std::string page = html_report({result});
  EXPECT_NE(page.find(heading), std::string::npos);
  EXPECT_NE(page.find(">3.00 MiB<"), std::string::npos);
  EXPECT_EQ(unbalanced(page), "");
}

TEST(LineChart, AShorterLineEndsWhereTheLongestDoes) {
  const std::string chart = line_chart({{"many", {0, 1, 2, 3, 4}}, {"few", {0, 4}}}, {.from_zero = true});
  std::vector<std::string> ends;
  for (size_t at = chart.find("points=\""); at != std::string::npos; at = chart.find("points=\"", at + 1)) {
    const std::string points = chart.substr(at + 8, chart.find('"', at + 8) - at - 8);
    ends.push_back(points.substr(points.rfind(' ', points.size() - 2) + 1));
  }
  ASSERT_EQ(ends.size(), 2U) << chart;
  EXPECT_EQ(ends[0], ends[1]) << chart;
}

std::vector<double> numbers_of(const std::string& svg, const std::string& name) {
  std::vector<double> values;
  for (size_t at = svg.find(name); at != std::string::npos; at = svg.find(name, at + 1))
    values.push_back(std::stod(svg.substr(at + name.size())));
  return values;
}

TEST(RatioCurve, StaysInsideItsFrameAndAFasterPointIsHigher) {
  const CurveAxes axes = {
      .what = "w", .setting = "length", .is_log = true, .low = 0.01, .high = 100, .ticks = {0.1, 10, 10, 120}};
  const std::string curve =
      ratio_curve({{"1", 1, 0.02, 0.011, 0.5, "slower"}, {"4096", 4096, 50, 1, 99, "faster"}}, axes);
  for (const char* name : {" x=\"", " x1=\"", " x2=\"", " cx=\""}) {
    for (const double x : numbers_of(curve, name)) EXPECT_TRUE(x >= 0 && x <= 440) << curve;
  }
  for (const char* name : {" y=\"", " y1=\"", " y2=\"", " cy=\""}) {
    for (const double y : numbers_of(curve, name)) EXPECT_TRUE(y >= 0 && y <= 212) << curve;
  }
  const std::vector<double> xs = numbers_of(curve, " cx=\""), ys = numbers_of(curve, " cy=\"");
  ASSERT_EQ(ys.size(), 2u);
  EXPECT_LT(xs[0], xs[1]);
  EXPECT_GT(ys[0], ys[1]);
  EXPECT_EQ(count(curve, "class=\"unit\""), 1u) << "the line at 1x";
  EXPECT_EQ(count(curve, ">1x<"), 1u);
  EXPECT_EQ(count(curve, ">10x<") + count(curve, ">10.0x<"), 1u) << "a tick is drawn once";
  EXPECT_EQ(count(curve, ">120x<"), 0u);
  EXPECT_EQ(count(curve, "class=\"whisker\""), 6u) << "a bar with two ends for each interval";
  EXPECT_EQ(ratio_curve({{"1", 1, 2, 1, 3, "open"}}, axes), "");
}

TEST(RatioCurve, NamesOfPointsDoNotCoverEachOther) {
  const std::string curve =
      ratio_curve({{"1000", 1000, 2, 1, 3, "open"}, {"1001", 1001, 2, 1, 3, "open"}, {"2000", 2000, 2, 1, 3, "open"}},
                  {.setting = "s", .low = 0.5, .high = 4});
  EXPECT_EQ(count(curve, ">1000<") + count(curve, ">2000<"), 2u);
  EXPECT_EQ(count(curve, ">1001<"), 0u);
}

TEST(HtmlReport, SweepsAreCurvesWithTheirNumbersBelow) {
  const std::string none = html_report({sample_result()});
  EXPECT_NE(none.find("No sweep was measured"), std::string::npos);
  const std::string page = html_report({sample_result()}, {}, {sample_sweep({{32, 1.5}, {8, 0.5}, {128, 2}})});
  EXPECT_EQ(count(page, "<svg class=\"curve\""), 1u);
  const size_t low = page.find("<th scope=\"row\" class=\"n\">8</th>"), high = page.find(">128</th>");
  EXPECT_TRUE(low < high && high != std::string::npos) << "points are not in order of the setting";
  EXPECT_NE(page.find("FASTER 1.50x <span class=\"whole\">[1.45, 1.55]</span>", low), std::string::npos);
  EXPECT_EQ(page.find("measured with other code"), std::string::npos);
  EXPECT_EQ(unbalanced(page), "");
}

TEST(HtmlReport, ASweepOfOtherCodeSaysSo) {
  Result sweep = sample_sweep({{8, 0.5}, {32, 1.5}});
  sweep.code_hash = std::string(64, 'c');
  EXPECT_NE(html_report({sample_result()}, {}, {sweep}).find("measured with other code"), std::string::npos);
}

TEST(HtmlReport, APointWithoutARatioIsInTheTableAlone) {
  Result sweep = sample_sweep({{8, 0.5}, {32, 1.5}, {64, 2}});
  sweep.cases[1].verdicts[0].speed = {"INVALID", {}, {}, {}};
  const std::string page = html_report({}, {}, {sweep});
  const size_t figure = page.find("<figure>");
  EXPECT_EQ(count(page.substr(figure), "<circle"), 2u);
  EXPECT_NE(page.find("INVALID", figure), std::string::npos);
  EXPECT_EQ(page.find("href=\"#30_gradient_accumulation\"", figure), std::string::npos) << "a link to no section";
}

TEST(HtmlReport, RungsOfAKernelStandBelowEachOther) {
  Result result = sample_result();
  result.lesson = "43_fused", result.title = "Fused";
  CaseResult& c = result.cases[0];
  c.kind = "survey", c.verdicts.clear();
  c.variants.resize(2);
  c.variants[0].name = "eager", c.variants[1].name = "ours";
  c.variants[0].notes = {{"softmax", {32, "bytes/element"}}};
  c.variants[1].notes = {
      {"softmax, rung 0", {128, "bytes/element"}},           {"softmax, rung 1", {8, "bytes/element"}},
      {"rung 2 in bfloat16, softmax", {4, "bytes/element"}}, {"a.cuh:1 global load", {4, "sectors/request"}},
      {"a.cuh:9 global load", {32, "sectors/request"}},      {"modelled on an H100, not measured", {2e-7, "s"}}};
  const std::string page = html_report({result});
  const std::string table = page.substr(page.find("<table class=\"counts\">"), 3000);
  for (const char* part : {">softmax, bytes/<wbr>element</th>", ">eager</th>", ">ours, rung 0</th>",
                           ">ours, rung 1</th>", ">ours, rung 2 in bfloat16</th>", ">128</td>",
                           ">global load, worst line, sectors/<wbr>request</th>", ">32</td>", ">200 ns</td>"}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << " in " << table;
  }
  EXPECT_EQ(unbalanced(page), "");
  result.lesson = "10_other";  // surveys of other chapters count no kernel
  EXPECT_EQ(count(html_report({result}), "<table class=\"counts\">"), 0u);
}

TEST(HtmlReport, NothingMeasuredIsAPageToo) {
  const std::string page = html_report({}, {{"30_gradient_accumulation", "interrupted before it started"}});
  EXPECT_NE(page.find("interrupted before it started"), std::string::npos);
  EXPECT_EQ(unbalanced(page), "");
}

TEST(HtmlReport, ATrainingShowsQualityAndItsCurves) {
  const std::string page = html_report({sample_training()});
  for (const char* part :
       {"NOT WORSE +0.0003 [-0.0031, +0.0038]", "reached by 0 of 6 seeds", "lower is better; margin 0.021",
        "validation loss at each evaluation, mean of the seeds", "Time to the baseline's quality"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(unbalanced(page), "");
}

TEST(Headlines, OneForEachLessonAndTheSurprisesInEightyColumns) {
  Result surprising = sample_result();
  surprising.lesson = "31_other";
  for (Verdict& verdict : surprising.cases[0].verdicts) {
    if (verdict.as_expected.speed) verdict.as_expected.speed = false;
  }
  const std::string calm = format_headlines({sample_result()}), text = format_headlines({sample_result(), surprising});
  EXPECT_EQ(count(calm, "\n30 ") + (calm.starts_with("30 ") ? 1 : 0), 1u) << calm;
  EXPECT_NE(calm.find("No surprise"), std::string::npos) << calm;
  EXPECT_NE(text.find("SURPRISE"), std::string::npos) << text;
  for (size_t from = 0; from < text.size();) {
    const size_t end = text.find('\n', from);
    EXPECT_LE(display_width(text.substr(from, end - from)), 80u) << text;
    from = end + 1;
  }
  EXPECT_EQ(format_headlines({}), "");
}

TEST(PredictionErrors, HalfAndTwiceAsFastAreEquallyFarOff) {
  Result result = sample_result();
  CaseResult& c = result.cases[0];
  const Verdict one = c.verdicts.at(0);
  c.verdicts.assign(4, one);
  for (Verdict& verdict : c.verdicts) verdict.prediction_error.clear();
  c.verdicts[0].prediction_error = {{"speed", std::log(1.10)}, {"peak", -0.01}};
  c.verdicts[1].prediction_error = {{"speed", std::log(0.5)}};
  c.verdicts[2].prediction_error = {{"speed", std::log(1.02)}};
  const std::vector<PredictionErrors> errors = prediction_errors({result});
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].count, 3u);
  EXPECT_NEAR(errors[0].median, 0.10, 1e-12);
  EXPECT_NEAR(errors[0].worst, -0.5, 1e-12) << "half as fast is 100 % off, more than 10 %";
  EXPECT_EQ(errors[0].off, 1u);
  EXPECT_EQ(errors[1].count, 1u);
  EXPECT_NEAR(errors[1].median, 0.01, 1e-12);
  const std::string text = format_headlines({result});
  EXPECT_NE(text.find("speed: 3 predicted, half within 10 %, 1 off by more than 25 %; worst -50 %"), std::string::npos)
      << text;
  EXPECT_NE(html_report({result}).find("Predictions of peak memory<b>half within 1.0 %"), std::string::npos);
  c.verdicts.assign(1, one);
  c.verdicts[0].prediction_error.clear();
  EXPECT_TRUE(prediction_errors({result}).empty());
  EXPECT_EQ(format_headlines({result}).find("Predictions"), std::string::npos);
}

TEST(HtmlReport, ASurveyHasNoVerdicts) {
  Result result = sample_result();
  result.cases[0].kind = "survey";
  const std::string page = html_report({result});
  EXPECT_EQ(page.find("SLOWER 0.80"), std::string::npos);
  EXPECT_NE(page.find("micro-batches"), std::string::npos);
}

}  // namespace
}  // namespace tenfold
