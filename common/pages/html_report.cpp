#include "common/pages/html_report.h"

#include <algorithm>

#include "common/base/text.h"
#include "common/pages/svg.h"
#include "common/pages/table.h"
#include "common/result/judge.h"

namespace tenfold {
namespace {

constexpr const char* kStyle = R"css(
:root { color-scheme: light dark; --page:#fff; --text:#1b1f24; --dim:#5d6673; --rule:#d9dee5; --card:#f6f8fa; --good:#1a7f4b; --bad:#b3402a; --even:#5b6b7f; --open:#9a6b00; --mark:#0b62c4;
  --p0:#c2571a; --p1:#7a5bb5; --p2:#1f7a8c; --p3:#b08900; --p4:#a03a6f; }
@media (prefers-color-scheme: dark) { :root { --page:#12161b; --text:#e4e9ef; --dim:#96a1ae; --rule:#2e3640; --card:#1a2027; --good:#4cc38a; --bad:#f0826a; --even:#8fa0b5; --open:#e0b04a; --mark:#6cb0ff;
  --p0:#e58b52; --p1:#a98be0; --p2:#52b4c7; --p3:#dcb63c; --p4:#d877a8; } }
* { box-sizing:border-box } body { margin:0; background:var(--page); color:var(--text); font:15px/1.5 system-ui, sans-serif }
main { max-width:1080px; margin:0 auto; padding:28px 20px 80px } h1 { font-size:28px; margin:0 0 4px } h2 { font-size:20px; margin:44px 0 4px; padding-top:14px; border-top:1px solid var(--rule) } h3 { font-size:16px; margin:22px 0 6px } h4 { font-size:13px; margin:14px 0 2px; color:var(--dim) }
p { margin:6px 0 } a { color:var(--mark) } .dim, svg .dim { color:var(--dim); fill:var(--dim) } .wide { overflow-x:auto }
table { border-collapse:collapse; width:100%; margin:10px 0; font-size:14px } th { text-align:left; font-weight:600; color:var(--dim); border-bottom:2px solid var(--rule) } th, td { padding:5px 12px 5px 0; vertical-align:top }
td { border-bottom:1px solid var(--rule) } .n { text-align:right; font-variant-numeric:tabular-nums; white-space:nowrap } tr.group td { font-weight:600; padding-top:14px; border-bottom:0 }
.v { font-weight:600; white-space:nowrap } .faster, .smaller { color:var(--good) } .slower, .larger, .invalid { color:var(--bad) } .same { color:var(--even) } .open { color:var(--open) } .surprise { color:var(--open); font-weight:600 }
svg { width:100%; height:auto; max-width:860px; display:block; margin:8px 0; font-size:12.5px } svg text { fill:var(--text) } svg text.dim { fill:var(--dim) } rect.faster { fill:var(--good) } rect.slower { fill:var(--bad) } rect.same { fill:var(--even) } rect.open { fill:var(--open) }
.axis { stroke:var(--dim); stroke-width:1 } .whisker { stroke:var(--text); stroke-width:1.5 } .part0 { fill:var(--p0) } .part1 { fill:var(--p1) } .part2 { fill:var(--p2) } .part3 { fill:var(--p3) } .part4 { fill:var(--p4) }
polyline { fill:none; stroke-width:1.8 } .line0 { stroke:var(--text) } .line1 { stroke:var(--p0) } .line2 { stroke:var(--p2) } .line3 { stroke:var(--p1) } .line4 { stroke:var(--p3) } .line5 { stroke:var(--p4) }
dl { display:grid; grid-template-columns:max-content 1fr; gap:2px 16px; margin:8px 0 } dt { font-weight:600 } dd { margin:0 } ul { margin:6px 0; padding-left:22px }
)css";

std::string kind_of(const std::string& speed) {
  if (speed == "FASTER") return "faster";
  if (speed == "SLOWER") return "slower";
  if (speed == "SAME") return "same";
  if (speed == "INVALID") return "invalid";
  return "open";
}

std::string cell(const std::string& text, const char* kind = "") {
  return std::string("<td") + (*kind ? " class=\"" + std::string(kind) + "\"" : "") + ">" + escape_html(text) + "</td>";
}

std::string chip(const std::string& text, const std::string& kind) {
  return "<td class=\"v " + kind + "\">" + escape_html(text) + "</td>";
}

std::string memory_kind(const MemoryResult& memory) {
  return memory.label == "SMALLER" ? "smaller" : memory.label == "LARGER" ? "larger" : "same";
}

std::string quality_kind(const QualityResult& quality) {
  if (quality.label == "NOT WORSE") return "same";
  if (quality.label == "WORSE") return "slower";
  return quality.label == "INVALID" ? "invalid" : "open";
}

bool is_surprise(const std::string& expectation) {
  return expectation.starts_with("SURPRISE") || expectation == "NOT CAUGHT" || expectation == "INVALID";
}

std::string verdict_cells(const VariantResult& variant, const Verdict& verdict) {
  const std::string expectation = expectation_text(variant, verdict);
  const bool trained = verdict.quality.has_value();
  return chip(trained ? time_to_quality_text(verdict) : speed_text(verdict.speed), kind_of(verdict.speed.label)) +
         chip(memory_text(verdict.memory), memory_kind(verdict.memory)) +
         (trained ? chip(agreement_text(verdict), quality_kind(*verdict.quality)) : cell(agreement_text(verdict))) +
         cell(prediction_text(variant, verdict)) + cell(expectation, is_surprise(expectation) ? "surprise" : "");
}

std::string summary(const std::vector<Result>& results) {
  std::string rows;
  for (const Result& result : results) {
    if (result.is_survey()) continue;
    rows += "<tr class=\"group\"><td colspan=\"7\"><a href=\"#" + escape_html(result.lesson) + "\">" +
            escape_html(result.lesson.substr(0, 2) + " " + result.title) + "</a></td></tr>";
    for (const CaseResult& c : result.cases) {
      for (const Verdict& verdict : c.verdicts) {
        if (const VariantResult* variant = variant_of(c, verdict.technique))
          rows += "<tr>" + cell(verdict.technique) + cell(c.name) + verdict_cells(*variant, verdict) + "</tr>";
      }
    }
  }
  if (rows.empty()) return "<p class=\"dim\">No lesson with a verdict was measured.</p>";
  return "<div class=\"wide\"><table><tr><th>technique</th><th>case</th><th>speed</th><th>memory</th><th>results "
         "agree</th><th>predicted "
         "speed</th><th>expected</th></tr>" +
         rows + "</table></div>";
}

std::string training_table(const CaseResult& c) {
  std::string out = "<p class=\"dim\">" + escape_html(metric_text(c)) +
                    "</p><div class=\"wide\"><table><tr><th>variant</th><th>" + escape_html(c.metric->name) +
                    "</th><th class=\"n\">trained in</th><th>against the baseline</th><th>time to its "
                    "quality</th><th>expected</th></tr>";
  for (const VariantResult& variant : c.variants) {
    const auto quality = variant.quality.find(c.metric->name);
    out += "<tr>" + cell(variant.name) + cell(quality == variant.quality.end() ? "-" : quality_text(quality->second)) +
           cell(training_time_text(c, variant), "n");
    if (const Verdict* verdict = verdict_of(c, variant.name)) {
      const std::string expectation = expectation_text(variant, *verdict);
      out += (verdict->quality ? chip(agreement_text(*verdict), quality_kind(*verdict->quality)) : cell("-")) +
             chip(time_to_quality_text(*verdict), kind_of(verdict->speed.label)) +
             cell(expectation, is_surprise(expectation) ? "surprise" : "");
    } else {
      out += cell("baseline", "dim") + "<td></td><td></td>";
    }
    out += "</tr>";
    if (!variant.reason.empty())
      out += "<tr><td></td><td colspan=\"5\" class=\"dim\">" + escape_html(variant.status + ": " + variant.reason) +
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
  std::vector<Line> losses, qualities;
  for (const VariantResult& variant : c.variants) {
    if (variant.split) {
      const Split& s = *variant.split;
      splits.push_back({variant.name,
                        human_seconds(s.data + s.host + s.device + s.copy + s.communication),
                        {s.data, s.host, s.device, s.copy, s.communication}});
    }
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
    for (const auto& [name, note] : variant.notes) add(name, note_text(note));
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

std::string lesson_section(const Result& result) {
  std::string out = "<h2 id=\"" + escape_html(result.lesson) + "\">" +
                    escape_html(result.lesson.substr(0, 2) + " " + result.title) + "</h2><p class=\"dim\">" +
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
    out += "<h3>Case " + escape_html(c.name) + "</h3><p class=\"dim\">" + escape_html(about) + "</p>" +
           variant_table(c) + charts(c) + agreement_list(c) + notes(c);
  }
  return out;
}

}  // namespace

std::string html_report(const std::vector<Result>& results,
                        const std::vector<std::pair<std::string, std::string>>& not_run) {
  std::string out =
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width, "
      "initial-scale=1\"><title>Tenfold report</title><style>";
  out += kStyle;
  out +=
      "</style></head><body><main><h1>Tenfold report</h1><p>GPU training techniques, each measured on this machine "
      "without and with "
      "it.</p>";
  if (!results.empty()) {
    const Result& first = results.front();
    const Machine& machine = first.machine;
    std::string day = first.started_at;
    for (const Result& result : results) day = std::max(day, result.started_at);
    out += "<dl><dt>Machine</dt><dd>" +
           escape_html(machine_text(machine) + ", " + human_bytes(static_cast<double>(machine.ram_bytes)) + " memory") +
           "</dd><dt>System</dt><dd>" + escape_html(machine.os) + "</dd><dt>Software</dt><dd>" +
           escape_html("LibTorch " + machine.libtorch + (machine.cuda.empty() ? "" : ", CUDA " + machine.cuda) +
                       (machine.driver.empty() ? "" : ", driver " + machine.driver)) +
           "</dd><dt>Measured</dt><dd>" + escape_html(day) + "</dd></dl>";
  }
  out +=
      "<h3>How to read it</h3><p>Each technique is timed in turns with its baseline, round by round. The <b>speed</b> "
      "is its items per "
      "second over the baseline's, with an interval that holds the true ratio 95 % of the time. "
      "<span class=\"v faster\">FASTER</span> and <span class=\"v slower\">SLOWER</span> mean that the interval clears "
      "1 by more than 1 %; "
      "<span class=\"v same\">SAME</span> that it stays within 2 % of 1; "
      "<span class=\"v open\">AMBIGUOUS</span> and <span class=\"v open\">UNDECIDED</span> that this run cannot tell; "
      "<span class=\"v "
      "invalid\">INVALID</span> that the technique trained something else than the baseline, so that its time means "
      "nothing. "
      "A training compares variants that train to an end from several seeds: "
      "<span class=\"v same\">NOT WORSE</span> when the technique's quality is within the stated margin of the "
      "baseline's, <span class=\"v slower\">WORSE</span> when it is beyond; its speed is that to an equal quality. "
      "<b>Memory</b> is its peak over the baseline's. Each technique was predicted and expected beforehand: a surprise "
      "is marked.</p>";
  out += "<h2>Verdicts</h2>" + summary(results);
  if (!not_run.empty()) {
    out += "<h3>Not run</h3><ul>";
    for (const auto& [lesson, reason] : not_run)
      out += "<li><b>" + escape_html(lesson) + "</b>: " + escape_html(reason) + "</li>";
    out += "</ul>";
  }
  for (const Result& result : results) out += lesson_section(result);
  return out + "</main></body></html>\n";
}

}  // namespace tenfold
