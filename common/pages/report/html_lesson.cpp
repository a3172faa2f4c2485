#include "common/pages/report/html_lesson.h"

#include "common/base/text.h"
#include "common/pages/figures/svg.h"
#include "common/pages/report/html_cells.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/note_words.h"
#include "common/pages/rows/quality_words.h"
#include "common/pages/rows/verdict_words.h"
#include "common/result/judge.h"

namespace tenfold {

namespace {

std::string quality_kind(const QualityResult& quality) {
  if (quality.label == "NOT WORSE") return "same";
  if (quality.label == "WORSE") return "slower";
  return quality.label == "INVALID" ? "invalid" : "open";
}

std::string verdict_cells(const VariantResult& variant, const Verdict& verdict) {
  const std::string expectation = expectation_text(variant, verdict);
  const bool trained = verdict.quality.has_value();
  return chip(trained ? time_to_quality_text(verdict) : speed_text(verdict.speed), kind_of(verdict.speed.label)) +
         chip(memory_text(verdict.memory), memory_kind(verdict.memory)) +
         (trained ? chip(agreement_text(verdict), quality_kind(*verdict.quality)) : cell(agreement_text(verdict))) +
         cell(prediction_text(variant, verdict)) + cell(expectation, is_surprise(expectation) ? "surprise" : "");
}

std::string training_table(const CaseResult& c) {
  const bool peaks = has_peaks(c);
  std::string out = "<p class=\"dim\">" + escape_html(metric_text(c)) +
                    "</p><div class=\"wide\"><table><tr><th>variant</th><th>" + escape_html(c.metric->name) +
                    "</th><th class=\"n\">trained in</th><th>against the baseline</th><th>time to its "
                    "quality</th>" +
                    (peaks ? "<th class=\"n\">peak</th><th>memory</th>" : "") + "<th>expected</th></tr>";
  for (const VariantResult& variant : c.variants) {
    const auto quality = variant.quality.find(c.metric->name);
    out += "<tr>" + cell(variant.name) + cell(quality == variant.quality.end() ? "-" : quality_text(quality->second)) +
           cell(training_time_text(c, variant), "n");
    if (const Verdict* verdict = verdict_of(c, variant.name)) {
      const std::string expectation = expectation_text(variant, *verdict);
      out += (verdict->quality ? chip(agreement_text(*verdict), quality_kind(*verdict->quality)) : cell("-")) +
             chip(time_to_quality_text(*verdict), kind_of(verdict->speed.label)) +
             (peaks ? cell(peak_text(variant), "n") + chip(memory_text(verdict->memory), memory_kind(verdict->memory))
                    : "") +
             cell(expectation, is_surprise(expectation) ? "surprise" : "");
    } else {
      out += cell("baseline", "dim") + "<td></td>" + (peaks ? cell(peak_text(variant), "n") + "<td></td>" : "") +
             "<td></td>";
    }
    out += "</tr>";
    if (!variant.reason.empty())
      out += "<tr><td></td><td colspan=\"7\" class=\"dim\">" + escape_html(variant.status + ": " + variant.reason) +
             "</td></tr>";
  }
  return out + "</table></div>";
}

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

std::string variant_table(const CaseResult& c) {
  if (c.kind == "training") return training_table(c);
  const bool survey = c.kind == "survey";
  std::string out =
      "<div class=\"wide\"><table><tr><th>variant</th><th class=\"n\">items/s</th><th class=\"n\">peak memory</th>";
  if (!survey) out += "<th>speed</th><th>memory</th><th>results agree</th><th>predicted speed</th><th>expected</th>";
  out += "</tr>";
  for (const VariantResult& variant : c.variants) {
    const double rate = items_per_second(variant);
    const auto peak = variant.peak();
    out += "<tr>" + cell(variant.name + (variant.source == "measured" ? "" : " (" + variant.source + ")")) +
           cell(rate > 0 ? human_number(rate) : "-", "n") +
           cell(peak ? human_bytes(static_cast<double>(*peak)) : "-", "n");
    if (!survey) {
      const Verdict* verdict = verdict_of(c, variant.name);
      out +=
          verdict ? verdict_cells(variant, *verdict) : cell("baseline", "dim") + "<td></td><td></td><td></td><td></td>";
    }
    out += "</tr>";
    if (!variant.reason.empty())
      out += "<tr><td></td><td colspan=\"7\" class=\"dim\">" + escape_html(variant.status + ": " + variant.reason) +
             "</td></tr>";
  }
  return out + "</table></div>";
}

std::string charts(const CaseResult& c) {
  std::vector<RatioBar> ratios;
  for (const Verdict& verdict : c.verdicts) {
    if (verdict.speed.ratio && verdict.speed.low && verdict.speed.high && *verdict.speed.low > 0) {
      ratios.push_back({verdict.technique, *verdict.speed.ratio, *verdict.speed.low, *verdict.speed.high,
                        kind_of(verdict.speed.label)});
    }
  }
  std::vector<StackedBar> splits;
  std::vector<Line> losses, qualities, memories;
  for (const VariantResult& variant : c.variants) {
    if (variant.split) {
      const Split& s = *variant.split;
      splits.push_back({variant.name,
                        human_seconds(s.data + s.host + s.device + s.copy + s.communication),
                        {s.data, s.host, s.device, s.copy, s.communication}});
    }
    if (variant.timeline)
      memories.push_back({variant.name, {variant.timeline->bytes.begin(), variant.timeline->bytes.end()}});
    if (!variant.losses.empty()) losses.push_back({variant.name, variant.losses});
    if (variant.curves) qualities.push_back({variant.name, mean_curve(*variant.curves)});
  }
  std::string out;
  if (!ratios.empty())
    out += std::string(c.kind == "training" ? "<h4>Time to the baseline's quality, the baseline's over the technique's"
                                            : "<h4>Items per second against the baseline") +
           " (longer to the right is faster; whiskers are the interval)</h4>" + ratio_chart(ratios);
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

std::string notes(const CaseResult& c) {
  std::string rows;
  for (const VariantResult& variant : c.variants) {
    const auto add = [&](const std::string& name, const std::string& value) {
      rows += "<tr>" + cell(variant.name) + cell(name) + cell(value, "n") + "</tr>";
    };
    for (const auto& [name, values] : variant.quality) {
      if (!c.metric || name != c.metric->name) add(name, quality_text(values));
    }
    for (const auto& [name, note] : variant.notes) add(name, note_text(name, note));
    for (const auto& [collective, bytes] : variant.sent_bytes) {
      add("asked of " + collective + " in one step", human_bytes(static_cast<double>(bytes)));
    }
  }
  return rows.empty() ? "" : "<h4>Notes</h4><div class=\"wide\"><table>" + rows + "</table></div>";
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
    std::string about = c.device + ", " + c.dtype + ", size " + c.size + ", " + std::to_string(c.threads) +
                        (c.threads == 1 ? " thread" : " threads");
    if (c.ranks > 1) about += ", " + std::to_string(c.ranks) + " ranks over " + c.backend;
    about += ", preset " + c.preset + ", seed " + std::to_string(c.seed);
    if (const std::string rounds = rounds_text(c); !rounds.empty()) about += "; " + rounds;
    if (const std::string withheld = speed_withheld(c, result.machine.cores); !withheld.empty())
      about += "; " + withheld;
    if (c.noise) about += "; two identical baselines differed by up to " + human_percent(*c.noise);
    out += "<h4>Case " + escape_html(c.name) + "</h4><p class=\"dim\">" + escape_html(about) + "</p>" +
           variant_table(c) + charts(c) + agreement_list(c) + notes(c);
  }
  return out + "</details>";
}

}  // namespace tenfold
