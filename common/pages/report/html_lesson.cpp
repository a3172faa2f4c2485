#include "common/pages/report/html_lesson.h"

#include <algorithm>
#include <array>

#include "common/base/text.h"
#include "common/pages/figures/svg.h"
#include "common/pages/report/html_cells.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/row_parts.h"
#include "common/pages/rows/rows.h"
#include "common/pages/rows/verdict_words.h"
#include "common/result/judge.h"

namespace tenfold {

namespace {

/// The mean over the seeds of each evaluation; nothing unless all seeds have equally many.
std::vector<double> mean_curve(const std::vector<Curve>& curves) {
  std::vector<double> mean;
  for (const Curve& curve : curves) {
    if (mean.empty()) mean.resize(curve.quality.size());
    if (curve.quality.size() != mean.size()) return {};
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += curve.quality[i] / static_cast<double>(curves.size());
  }
  return mean;
}

/// The columns of a report, which is as wide as a screen.
constexpr std::array<Column, 13> kShown = {
    Column::budget_value,     Column::quality,         Column::trained_in, Column::rate,   Column::peak,
    Column::against_baseline, Column::time_to_quality, Column::speed,      Column::memory, Column::agreement,
    Column::predicted_speed,  Column::predicted_peak,  Column::expected};

/// Columns in which some row says something.
std::vector<Heading> shown_headings(const CaseRows& rows) {
  std::vector<Heading> shown;
  for (const Column column : kShown) {
    const auto heading = std::ranges::find(rows.headings, column, &Heading::column);
    const bool filled = std::ranges::any_of(rows.rows, [&](const VariantRow& row) {
      const std::string& text = row.at(column).text;
      return !text.empty() && text != "-";
    });
    if (heading != rows.headings.end() && filled) shown.push_back(*heading);
  }
  return shown;
}

std::string variant_table(const CaseRows& rows) {
  const std::vector<Heading> headings = shown_headings(rows);
  std::string out = rows.about.empty() ? "" : "<p class=\"dim\">" + escape_html(rows.about) + "</p>";
  const bool has_reasons =
      std::ranges::any_of(rows.rows, [](const VariantRow& row) { return !row.variant->reason.empty(); });
  if (headings.empty() && !has_reasons) return out;  // the facts below name the variants
  out += "<div class=\"wide\"><table><tr><th>variant</th>";
  for (const Heading& heading : headings) {
    const bool number = std::ranges::any_of(
        rows.rows, [&](const VariantRow& row) { return row.at(heading.column).tone == Tone::number; });
    out += (number ? "<th class=\"n\">" : "<th>") + escape_html(heading.text) + "</th>";
  }
  out += "</tr>";
  for (const VariantRow& row : rows.rows) {
    out += "<tr>" + cell(row.name);
    for (const Heading& heading : headings) out += cell(row.at(heading.column));
    out += "</tr>";
    if (const std::string reason = reason_text(*row.variant); !reason.empty())
      out += "<tr><td></td><td colspan=\"" + std::to_string(std::max<size_t>(1, headings.size())) +
             "\" class=\"dim\">" + escape_html(reason) + "</td></tr>";
  }
  return out + "</table></div>";
}

std::string charts(const CaseRows& rows) {
  const CaseResult& c = *rows.c;
  std::vector<RatioBar> ratios;
  for (const Verdict& verdict : c.verdicts) {
    if (verdict.speed.ratio && verdict.speed.low && verdict.speed.high && *verdict.speed.low > 0) {
      ratios.push_back({verdict.technique, *verdict.speed.ratio, *verdict.speed.low, *verdict.speed.high,
                        class_of(speed_tone(verdict.speed.label))});
    }
  }
  std::vector<StackedBar> splits;
  std::vector<Line> losses, qualities, memories;
  for (const VariantResult& variant : c.variants) {
    if (variant.split) {
      std::vector<double> seconds;
      for (const SplitPart& part : kSplitParts) seconds.push_back((*variant.split).*part.seconds);
      splits.push_back({variant.name, human_seconds(step_seconds(*variant.split)), std::move(seconds)});
    }
    if (variant.timeline)
      memories.push_back({variant.name, {variant.timeline->bytes.begin(), variant.timeline->bytes.end()}});
    if (!variant.losses.empty()) losses.push_back({variant.name, variant.losses});
    if (variant.curves) qualities.push_back({variant.name, mean_curve(*variant.curves)});
  }
  std::string out;
  if (!ratios.empty())
    out +=
        "<h4>" + rows.ratio + " (longer to the right is faster; whiskers are the interval)</h4>" + ratio_chart(ratios);
  if (!splits.empty())
    out += "<h4>Where the time of one step goes</h4>" +
           stacked_chart(splits, {"waiting for data", "host", "device", "copies", "communication"});
  const LineAxes step = {.what = "bytes alive over one step",
                         .first = "first operator",
                         .last = "last operator",
                         .from_zero = true,
                         .text_of = human_bytes};
  if (const std::string chart = line_chart(memories, step); !chart.empty())
    out += "<h4>Bytes alive over one step: the highest point is the peak</h4>" + chart;
  if (const std::string chart = line_chart(losses); !chart.empty())
    out += "<h4>Loss over the same steps: equal lines mean equal training</h4>" + chart;
  if (const std::string chart = line_chart(qualities); !chart.empty())
    out += "<h4>" + escape_html(c.metric->name) + " at each evaluation, mean of the seeds</h4>" + chart;
  return out;
}

std::string notes(const CaseRows& rows) {
  std::string out;
  for (const VariantRow& row : rows.rows) {
    for (const Fact& fact : row.facts) {
      // How long a training took has its column; of the environment the file tells more.
      if (fact.of == Fact::Of::training || fact.of == Fact::Of::environment) continue;
      out += "<tr>" + cell(row.variant->name) + cell(fact.name) + cell(fact.text, "n") + "</tr>";
    }
  }
  return out.empty() ? "" : "<h4>Notes</h4><div class=\"wide\"><table>" + out + "</table></div>";
}

std::string agreement_list(const CaseResult& c) {
  std::string out;
  for (const Verdict& verdict : c.verdicts) {
    if (verdict.agreement && !verdict.agreement->rule.empty())
      out += "<li>" + escape_html(verdict.technique + ": " + verdict.agreement->rule + "; " + agreement_text(verdict)) +
             "</li>";
  }
  return out.empty() ? "" : "<h4>How agreement was judged</h4><ul>" + out + "</ul>";
}

}  // namespace

std::string lesson_section(const Result& result) {
  std::string out = "<details class=\"lesson\" id=\"" + escape_html(result.lesson) + "\"><summary><h3>" +
                    escape_html(number_of_name(result.lesson) + " " + result.title) +
                    "</h3></summary><p class=\"dim\">" +
                    escape_html(result.lesson + ", measured " + result.started_at +
                                (result.commit.empty() ? "" : ", commit " + result.commit.substr(0, 10)) +
                                (result.dirty ? " with changes" : "")) +
                    "</p>";
  for (const CaseResult& c : result.cases) {
    const CaseRows rows = rows_of(c);
    std::string about = case_text(c);
    if (const std::string withheld = speed_withheld(c, result.machine.cores); !withheld.empty())
      about += "; " + withheld;
    if (c.noise) about += "; two identical baselines differed by up to " + human_percent(*c.noise);
    out += "<h4>Case " + escape_html(c.name) + "</h4><p class=\"dim\">" + escape_html(about) + "</p>" +
           variant_table(rows) + charts(rows) + agreement_list(c) + notes(rows);
  }
  return out + "</details>";
}

}  // namespace tenfold
