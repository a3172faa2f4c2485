#include "common/pages/report/html_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "common/base/text.h"
#include "common/machine/makers_share.h"
#include "common/pages/figures/svg.h"
#include "common/pages/figures/work_points.h"
#include "common/pages/report/html_cells.h"
#include "common/pages/report/html_kernels.h"
#include "common/pages/report/html_lesson.h"
#include "common/pages/report/html_sweeps.h"
#include "common/pages/report/report_template.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/machine_card.h"
#include "common/pages/rows/prediction_errors.h"
#include "common/pages/rows/rows.h"
#include "common/pages/rows/verdict_words.h"

namespace tenfold {
namespace {

std::string title_of(const Result& result) { return number_of_name(result.lesson) + " " + result.title; }

std::string link_to(const Result& result) {
  return "<a href=\"#" + escape_html(result.lesson) + "\">" + escape_html(title_of(result)) + "</a>";
}

std::string what_was_measured(const std::vector<Result>& results, size_t verdicts) {
  if (results.empty()) return "Nothing was measured.";
  std::set<std::string> machines;
  std::string day;
  for (const Result& result : results) machines.insert(result.machine.id), day = std::max(day, result.started_at);
  const auto count = [](size_t n, const std::string& word) { return std::to_string(n) + word + (n == 1 ? "" : "s"); };
  return escape_html(count(results.size(), " lesson") + " with " + count(verdicts, " verdict") + " on " +
                     machine_text(results.front().machine) +
                     (machines.size() > 1 ? " (and " + std::to_string(machines.size() - 1) + " more)" : "") + ", " +
                     day.substr(0, 10) +
                     ". Each GPU training technique was measured without and with it, on the same work.");
}

/// The largest decided gain of speed, the largest saving of memory, the surprises, and what predictions were worth.
std::string notable(const std::vector<VerdictRow>& rows, const std::vector<Result>& results) {
  const VerdictRow *fastest = nullptr, *smallest = nullptr;
  std::vector<const VerdictRow*> surprises;
  for (const VerdictRow& row : rows) {
    const SpeedResult& speed = row.row.verdict->speed;
    const MemoryResult& memory = row.row.verdict->memory;
    if (row.row.variant->status == "ok" && speed.label == "FASTER" && speed.ratio &&
        (!fastest || *speed.ratio > *fastest->row.verdict->speed.ratio))
      fastest = &row;
    if (row.row.variant->status == "ok" && memory.label == "SMALLER" && memory.ratio &&
        (!smallest || *memory.ratio < *smallest->row.verdict->memory.ratio))
      smallest = &row;
    if (row.row.at(Column::expected).tone == Tone::surprise) surprises.push_back(&row);
  }
  const auto where = [](const VerdictRow& row) {
    return escape_html(row.row.verdict->technique + " in case " + row.c->name) + ", " + link_to(*row.result);
  };
  std::string out = "<ul class=\"notable\">";
  if (fastest)
    out += "<li>Largest gain of speed<b class=\"faster\">" + escape_html(speed_text(fastest->row.verdict->speed)) +
           "</b>" + where(*fastest) + "</li>";
  if (smallest)
    out += "<li>Largest saving of memory<b class=\"smaller\">" +
           escape_html(memory_text(smallest->row.verdict->memory)) + "</b>" + where(*smallest) + "</li>";
  std::string list;
  for (size_t i = 0; i < std::min<size_t>(3, surprises.size()); ++i)
    list += (i == 0 ? "" : "; ") + where(*surprises[i]);
  if (surprises.size() > 3) list += "; and " + std::to_string(surprises.size() - 3) + " more";
  out += "<li>Against what was stated before<b class=\"" + std::string(surprises.empty() ? "same" : "surprise") +
         "\">" + (surprises.empty() ? "no" : std::to_string(surprises.size())) +
         (surprises.size() == 1 ? " surprise" : " surprises") + "</b>" + list + "</li>";
  for (const PredictionErrors& errors : prediction_errors(results))
    out += "<li>Predictions of " + errors.of + "<b>" + median_text(errors) + "</b>" +
           escape_html(prediction_errors_text(errors)) + "</li>";
  return out + "</ul>";
}

std::string machine_card(const std::vector<Result>& results) {
  if (results.empty()) return "<p class=\"dim\">No result says what machine it was.</p>";
  std::string out;
  std::set<std::string> seen;
  for (const Result& result : results) {
    const Machine& machine = result.machine;
    if (!seen.insert(machine.id).second) continue;
    out += "<dl><dt>Machine</dt><dd>" +
           escape_html(machine_text(machine) + ", " + human_bytes(static_cast<double>(machine.ram_bytes)) + " memory") +
           "</dd><dt>System</dt><dd>" + escape_html(machine.os) + "</dd><dt>Software</dt><dd>" +
           escape_html("LibTorch " + machine.libtorch + (machine.cuda.empty() ? "" : ", CUDA " + machine.cuda) +
                       (machine.driver.empty() ? "" : ", driver " + machine.driver)) +
           "</dd></dl>";
    std::string rows;
    for (const auto& [name, value] : machine.ceilings) {
      const auto share = share_of_makers(machine, name, value);
      rows += "<tr>" + cell(ceiling_name(name)) + cell(ceiling_text(name, value), "n") +
              cell(share ? human_percent(*share) : "-", "n") + "</tr>";
    }
    out += rows.empty() ? "<p class=\"dim\">No ceilings were measured; measure them with: ./tenfold probe</p>"
                        : "<div class=\"wide\"><table class=\"narrow\"><caption>Ceilings: the most that this machine "
                          "reached</caption>"
                          "<thead><tr><th scope=\"col\">what</th><th scope=\"col\" class=\"n\">measured</th>"
                          "<th scope=\"col\" class=\"n\">of the maker's figure</th></tr></thead>"
                          "<tbody>" +
                              rows + "</tbody></table></div>";
  }
  return out;
}

std::string data_value(const char* name, const std::optional<double>& value) {
  return std::string(" data-") + name + "=\"" + (value ? escape_html(std::to_string(*value)) : "") + "\"";
}

/// What lies beyond is an arrow at the edge: one variant of 100x must not squeeze all others into the middle.
constexpr double kFarthest = 6;

std::string all_verdicts(const std::vector<VerdictRow>& rows) {
  if (rows.empty()) return "<p class=\"dim\">No lesson with a verdict was measured.</p>";
  double far = 1.25;
  for (const VerdictRow& row : rows) {
    const SpeedResult& speed = row.row.verdict->speed;
    if (speed.low && speed.high && *speed.low > 0) far = std::max({far, *speed.high, 1 / *speed.low});
  }
  far = std::min(far, kFarthest);
  std::string out =
      "<div class=\"wide\"><table id=\"all-verdicts\"><caption>Every technique in every case</caption><thead><tr>"
      "<th scope=\"col\" data-sort=\"order\">lesson</th><th scope=\"col\">technique, case</th>"
      "<th scope=\"col\">interval</th><th scope=\"col\" data-sort=\"ratio\">speed</th>"
      "<th scope=\"col\" data-sort=\"memory\">memory</th><th scope=\"col\">agreement</th>"
      "<th scope=\"col\">expected</th></tr></thead><tbody>";
  size_t order = 0;
  for (const VerdictRow& row : rows) {
    const Verdict& verdict = *row.row.verdict;
    const SpeedResult& speed = verdict.speed;
    const Cell& expected = row.row.at(Column::expected);
    const bool surprise = expected.tone == Tone::surprise,
               timed = speed.ratio && speed.low && speed.high && *speed.low > 0;
    out +=
        "<tr data-lesson=\"" + escape_html(row.result->lesson) + "\" data-label=\"" + escape_html(speed.label) +
        "\" data-surprise=\"" + (surprise ? "1" : "0") + "\" data-order=\"" + std::to_string(order++) + "\"" +
        data_value("ratio", speed.ratio) + data_value("memory", verdict.memory.ratio) + "><td>" + link_to(*row.result) +
        "</td><td>" + escape_html(verdict.technique) + "<br><span class=\"dim\">" + escape_html(row.c->name) +
        "</span></td><td>" +
        (timed ? interval_mark({"", *speed.ratio, *speed.low, *speed.high, class_of(row.row.speed().tone)}, far) : "") +
        "</td>" + cell(row.row.speed()) + cell(row.row.at(Column::memory)) + cell(row.row.agreement()) +
        cell(expected) + "</tr>";
  }
  return out + "</tbody></table></div>";
}

/// One rank and one thread, which is what the ceilings of a CPU were measured with; several ranks have no roof of their
/// own in a result file.
std::string roofline(const std::vector<Result>& results) {
  const auto [points, left_out] = work_points(results);
  const auto roof = results.empty() ? std::nullopt : work_roof(results.front().machine);
  const std::string missing =
      left_out == 0 ? ""
                    : " " + std::to_string(left_out) + (left_out == 1 ? " case is" : " cases are") +
                          " not shown: their files lack counted work, times or ceilings, or they ran on a GPU, on "
                          "several ranks or on several threads.";
  if (points.empty() || !roof) return "<p class=\"dim\">No case can be shown." + missing + "</p>";
  std::string rows;
  for (size_t i = 0; i < points.size(); ++i)
    rows += "<tr>" + cell(std::to_string(i + 1), "n") + cell(points[i].name) +
            cell(human_number(points[i].intensity), "n") + cell(human_number(points[i].flops_per_s / 1e9), "n") +
            "</tr>";
  return "<p>Each point is the baseline's step of a case: its counted arithmetic over the bytes that its operators "
         "read "
         "and write, and the rate it reached. The line is the machine's measured copy rate, then its measured rate of "
         "matmuls, both on one core. Operators find inputs in the caches, so a point may lie above the slope. A lesson "
         "whose variants note their own intensity is shown with all of them; those on several cores may lie above the "
         "roof." +
         missing + "</p><div class=\"wide\">" + roofline_chart(points, roof->flops_per_s, roof->bytes_per_s) +
         "</div><div class=\"wide\"><table><caption>The points of the roofline</caption><thead><tr>"
         "<th scope=\"col\" class=\"n\">point</th><th scope=\"col\">lesson, case, baseline</th>"
         "<th scope=\"col\" class=\"n\">FLOP per byte</th><th scope=\"col\" "
         "class=\"n\">GFLOP/s</th></tr></thead><tbody>" +
         rows + "</tbody></table></div>";
}

/// One pass, so that a name in braces inside a measured text stays text.
std::string filled(const std::string& text, const std::map<std::string, std::string>& values) {
  std::string out;
  size_t from = 0;
  for (size_t at = text.find("{{"); at != std::string::npos; at = text.find("{{", from)) {
    const size_t end = text.find("}}", at);
    out += text.substr(from, at - from) + values.at(text.substr(at + 2, end - at - 2));
    from = end + 2;
  }
  return out + text.substr(from);
}

}  // namespace

// Charts are our own SVG and not Vega's: they are there without scripts and on paper, a tour needs neither Python nor a
// bundle of a megabyte that set-up would have to fetch, and a row of the table and its interval cannot come apart.
std::string html_report(const std::vector<Result>& results,
                        const std::vector<std::pair<std::string, std::string>>& not_run,
                        const std::vector<Result>& sweeps) {
  const std::vector<VerdictRow> rows = verdict_rows(results);
  std::string lessons, lesson_options, label_options, absent;
  for (const Result& result : results) lessons += lesson_section(result);
  std::set<std::string> labels, named;
  for (const VerdictRow& row : rows) {
    labels.insert(row.row.verdict->speed.label);
    if (named.insert(row.result->lesson).second)
      lesson_options += "<option value=\"" + escape_html(row.result->lesson) + "\">" +
                        escape_html(title_of(*row.result)) + "</option>";
  }
  for (const std::string& label : labels)
    label_options += "<option value=\"" + escape_html(label) + "\">" + escape_html(label) + "</option>";
  for (const auto& [lesson, reason] : not_run)
    absent += "<li><b>" + escape_html(lesson) + "</b>: " + escape_html(reason) + "</li>";
  if (!absent.empty()) absent = "<h3>Not run</h3><ul>" + absent + "</ul>";
  return filled(kReportTemplate, {{"sentence", what_was_measured(results, rows.size())},
                                  {"notable", rows.empty() ? "" : notable(rows, results)},
                                  {"machine", machine_card(results)},
                                  {"lesson_options", lesson_options},
                                  {"label_options", label_options},
                                  {"verdicts", all_verdicts(rows)},
                                  {"not_run", absent},
                                  {"roofline", roofline(results)},
                                  {"sweeps", sweeps_section(sweeps, results)},
                                  {"kernels", kernels_section(results)},
                                  {"lessons", lessons}});
}

}  // namespace tenfold
