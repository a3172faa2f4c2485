#include "common/pages/html_report.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/base/text.h"
#include "common/pages/headlines.h"
#include "common/pages/svg.h"

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
    if (tag[0] == '!' || tag.back() == '/' || name == "meta" || name == "br" || name == "input") continue;
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
  const std::string page = html_report({result}, {{evil, evil}});
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

TEST(HtmlReport, ASurveyHasNoVerdicts) {
  Result result = sample_result();
  result.cases[0].kind = "survey";
  const std::string page = html_report({result});
  EXPECT_EQ(page.find("SLOWER 0.80"), std::string::npos);
  EXPECT_NE(page.find("micro-batches"), std::string::npos);
}

}  // namespace
}  // namespace tenfold
