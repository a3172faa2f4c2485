#include "common/pages/report/html_sweeps.h"

#include <algorithm>
#include <optional>

#include "common/base/text.h"
#include "common/pages/figures/figure_style.h"
#include "common/pages/figures/svg.h"
#include "common/pages/report/html_cells.h"
#include "common/pages/rows/quality_words.h"
#include "common/pages/rows/row_parts.h"
#include "common/pages/rows/sweeps.h"
#include "common/pages/rows/verdict_words.h"

namespace tenfold {
namespace {

const std::string& setting_of(const Result& sweep) { return sweep.cases.front().sweep.value().setting; }

/// The technique's points with a ratio as a picture; empty with fewer than two of them.
std::string picture(const Result& sweep, const std::string& technique) {
  const std::vector<const CaseResult*> swept = points_of(sweep);
  const bool numbers = std::all_of(swept.begin(), swept.end(),
                                   [](const CaseResult* c) { return number_of(c->sweep->value).has_value(); });
  std::vector<CurvePoint> points;
  std::vector<double> all;
  for (size_t i = 0; i < swept.size(); ++i) {
    const SettingValue& value = swept[i]->sweep->value;
    const Verdict* verdict = verdict_of(*swept[i], technique);
    if (!verdict) continue;
    const SpeedResult& speed = verdict->speed;
    if (!speed.ratio || !speed.low || !speed.high || !(*speed.low > 0)) continue;
    points.push_back({to_string(value), numbers ? *number_of(value) : static_cast<double>(i), *speed.ratio, *speed.low,
                      *speed.high, class_of(speed_tone(speed.label))});
    all.insert(all.end(), {*speed.low, *speed.ratio, *speed.high});
  }
  if (points.size() < 2) return "";
  const figure::RatioAxis axis = figure::ratio_axis(all);
  return ratio_curve(
      points, {.what = "speed of " + technique + " over " + setting_of(sweep) + "; the table below has its numbers",
               .setting = setting_of(sweep),
               .is_log = numbers && points.front().at > 0 && points.back().at >= 4 * points.front().at,
               .low = axis.low,
               .high = axis.high,
               .ticks = axis.ticks});
}

/// The speed; where the column is narrow, its interval goes to the next line as a whole.
std::string speed_cell(const Verdict& verdict) {
  std::string text = escape_html(verdict.quality ? time_to_quality_text(verdict) : speed_text(verdict.speed));
  if (const size_t at = text.rfind(" ["); at != std::string::npos)
    text = text.substr(0, at) + " <span class=\"whole\">" + text.substr(at + 1) + "</span>";
  return "<td class=\"v " + class_of(speed_tone(verdict.speed.label)) + "\">" + text + "</td>";
}

std::string table(const Result& sweep, const std::string& technique) {
  std::string rows;
  for (const CaseResult* c : points_of(sweep)) {
    const Verdict* verdict = verdict_of(*c, technique);
    if (!verdict) continue;
    rows += "<tr><th scope=\"row\" class=\"n\">" + escape_html(to_string(c->sweep->value)) + "</th>" +
            speed_cell(*verdict) + cell(memory_cell(verdict->memory)) + "</tr>";
  }
  const std::string setting = escape_html(setting_of(sweep));
  return "<table><caption>Speed and memory over " + setting + "</caption><thead><tr><th scope=\"col\" class=\"n\">" +
         setting + "</th><th scope=\"col\">speed</th><th scope=\"col\">memory</th></tr></thead><tbody>" + rows +
         "</tbody></table>";
}

/// What was swept, where it was measured, and whether the lesson's code is another by now.
std::string origin(const Result& sweep, const std::vector<Result>& results) {
  const bool other_code = std::any_of(results.begin(), results.end(), [&](const Result& result) {
    return result.lesson == sweep.lesson && result.code_hash != sweep.code_hash;
  });
  return sweep.machine.id + ", " + sweep.started_at.substr(0, 10) +
         (sweep.commit.empty() ? "" : ", commit " + sweep.commit.substr(0, 10)) +
         (other_code ? "; measured with other code than the lesson's verdicts" : "");
}

}  // namespace

std::string sweeps_section(const std::vector<Result>& sweeps, const std::vector<Result>& results) {
  std::string figures;
  for (const Result& sweep : sweeps) {
    const bool is_linked = std::any_of(results.begin(), results.end(),
                                       [&](const Result& result) { return result.lesson == sweep.lesson; });
    const std::string title = escape_html(number_of_name(sweep.lesson) + " " + sweep.title);
    if (sweep.cases.size() < 2 || sweep.cases[0].variants.empty()) continue;
    for (const Verdict& verdict : sweep.cases[0].verdicts) {
      const std::string about =
          verdict.technique + " against " + sweep.cases[0].variants[0].name + ", case " + swept_case(sweep.cases[0]);
      figures += "<figure><figcaption>" +
                 (is_linked ? "<a href=\"#" + escape_html(sweep.lesson) + "\">" + title + "</a>" : title) + ": <b>" +
                 escape_html(about) + "</b><br><span class=\"dim\">" + escape_html(origin(sweep, results)) +
                 "</span></figcaption>" + picture(sweep, verdict.technique) + table(sweep, verdict.technique) +
                 "</figure>";
    }
  }
  if (figures.empty())
    return "<p class=\"dim\">No sweep was measured on this machine. Measure one with: ./tenfold run LESSON --sweep "
           "SETTING=A,B,C</p>";
  return "<p>Each picture is one technique of one lesson, measured again at other values of one setting. The dots are "
         "the measured speed relative to the baseline, the bars the 95 % intervals; above the line at 1x is faster. "
         "Both axes of a picture are its own. The tables have the same numbers.</p><div class=\"sweeps\">" +
         figures + "</div>";
}

}  // namespace tenfold
