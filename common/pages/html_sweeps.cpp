#include "common/pages/html_sweeps.h"

#include <algorithm>
#include <optional>

#include "common/base/text.h"
#include "common/pages/figure_style.h"
#include "common/pages/html_lesson.h"
#include "common/pages/svg.h"
#include "common/pages/table.h"

namespace tenfold {
namespace {

std::optional<double> number_of(const SettingValue& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

/// Points of one case over one setting, lowest value first; words keep the order in which they were swept.
struct Swept {
  std::string name, setting;
  bool numbers = true;
  std::vector<const CaseResult*> points;
};

std::vector<Swept> curves_of(const Result& sweep) {
  std::vector<Swept> curves;
  for (const CaseResult& c : sweep.cases) {
    if (!c.sweep) continue;
    // A point's name is the case's with the value behind it: "gpt length=8".
    const std::string name = c.name.substr(0, c.name.rfind(" " + c.sweep->setting + "="));
    auto found = std::find_if(curves.begin(), curves.end(), [&](const Swept& curve) {
      return curve.name == name && curve.setting == c.sweep->setting;
    });
    if (found == curves.end()) found = curves.insert(curves.end(), Swept{name, c.sweep->setting, true, {}});
    found->points.push_back(&c);
    found->numbers = found->numbers && number_of(c.sweep->value).has_value();
  }
  for (Swept& curve : curves) {
    if (!curve.numbers) continue;
    std::stable_sort(curve.points.begin(), curve.points.end(), [](const CaseResult* a, const CaseResult* b) {
      return *number_of(a->sweep->value) < *number_of(b->sweep->value);
    });
  }
  return curves;
}

/// The technique's points with a ratio as a picture; empty with fewer than two of them.
std::string picture(const Swept& curve, const std::string& technique) {
  std::vector<CurvePoint> points;
  std::vector<double> all;
  for (size_t i = 0; i < curve.points.size(); ++i) {
    const SettingValue& value = curve.points[i]->sweep->value;
    const Verdict* verdict = verdict_of(*curve.points[i], technique);
    if (!verdict) continue;
    const SpeedResult& speed = verdict->speed;
    if (!speed.ratio || !speed.low || !speed.high || !(*speed.low > 0)) continue;
    points.push_back({to_string(value), curve.numbers ? *number_of(value) : static_cast<double>(i), *speed.ratio,
                      *speed.low, *speed.high, kind_of(speed.label)});
    all.insert(all.end(), {*speed.low, *speed.ratio, *speed.high});
  }
  if (points.size() < 2) return "";
  const figure::RatioAxis axis = figure::ratio_axis(all);
  return ratio_curve(points,
                     {.what = "speed of " + technique + " over " + curve.setting +
                              "; the table below has its "
                              "numbers",
                      .setting = curve.setting,
                      .is_log = curve.numbers && points.front().at > 0 && points.back().at >= 4 * points.front().at,
                      .low = axis.low,
                      .high = axis.high,
                      .ticks = axis.ticks});
}

/// The speed; where the column is narrow, its interval goes to the next line as a whole.
std::string speed_cell(const Verdict& verdict) {
  std::string text = escape_html(verdict.quality ? time_to_quality_text(verdict) : speed_text(verdict.speed));
  if (const size_t at = text.rfind(" ["); at != std::string::npos)
    text = text.substr(0, at) + " <span class=\"whole\">" + text.substr(at + 1) + "</span>";
  return "<td class=\"v " + kind_of(verdict.speed.label) + "\">" + text + "</td>";
}

std::string table(const Swept& curve, const std::string& technique, const std::string& caption) {
  std::string rows;
  for (const CaseResult* c : curve.points) {
    const Verdict* verdict = verdict_of(*c, technique);
    if (!verdict) continue;
    rows += "<tr><th scope=\"row\" class=\"n\">" + escape_html(to_string(c->sweep->value)) + "</th>" +
            speed_cell(*verdict) + chip(memory_text(verdict->memory), memory_kind(verdict->memory)) + "</tr>";
  }
  return "<table><caption>" + escape_html(caption) + "</caption><thead><tr><th scope=\"col\" class=\"n\">" +
         escape_html(curve.setting) +
         "</th><th scope=\"col\">speed</th><th scope=\"col\">memory</th></tr></thead><tbody>" + rows +
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
    const std::string title = escape_html(sweep.lesson.substr(0, 2) + " " + sweep.title);
    for (const Swept& curve : curves_of(sweep)) {
      const CaseResult& first = *curve.points.front();
      if (curve.points.size() < 2 || first.variants.empty()) continue;
      for (const Verdict& verdict : first.verdicts) {
        const std::string about =
            verdict.technique + " against " + first.variants.front().name + ", case " + curve.name;
        figures += "<figure><figcaption>" +
                   (is_linked ? "<a href=\"#" + escape_html(sweep.lesson) + "\">" + title + "</a>" : title) + ": <b>" +
                   escape_html(about) + "</b><br><span class=\"dim\">" + escape_html(origin(sweep, results)) +
                   "</span></figcaption>" + picture(curve, verdict.technique) +
                   table(curve, verdict.technique, "Speed and memory over " + curve.setting) + "</figure>";
      }
    }
  }
  if (figures.empty())
    return "<p class=\"dim\">No sweep was measured on this machine. Measure one with: ./tenfold run LESSON --sweep "
           "SETTING=A,B,C</p>";
  return "<p>Each picture is one technique of one lesson, measured again at other values of one setting. The dots are "
         "the measured speed relative to the baseline, the bars the 95 % intervals; above the line at 1x is faster. "
         "Both "
         "axes of a picture are its own. The tables have the same numbers.</p><div class=\"sweeps\">" +
         figures + "</div>";
}

}  // namespace tenfold
