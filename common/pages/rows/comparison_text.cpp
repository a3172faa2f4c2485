#include "common/pages/rows/comparison_text.h"

#include <algorithm>
#include <cstdint>

#include "common/base/text.h"
#include "common/pages/rows/note_words.h"
#include "common/pages/rows/verdict_words.h"

namespace tenfold {
namespace {

std::string case_of(const NotedRow& row) {
  return number_of_name(row.lesson) + " " + row.case_name +
         (row.ranks > 1 ? ", " + std::to_string(row.ranks) + " ranks" : "");
}

std::string ratio_text(const ComparedNote& note) {
  if (note.kind == NoteKind::count) return "-";
  const auto ratio = note.ratio();
  return ratio ? human_ratio(*ratio) : "-";
}

std::string verdict_text(const ComparedNote& note, const NotedRow& row, const Sides& sides) {
  const std::string verdict = note.verdict();
  if (verdict.empty()) return "no interval";
  if (verdict == "higher" || verdict == "lower") return sides[1] + " is " + verdict;
  return verdict == "NOT EQUAL" && !row.unlike.empty() ? verdict + " (" + row.unlike + ")" : verdict;
}

void add_alone(Cells& cells, const NotedRow& row, const std::vector<std::string>& names, const std::string& side) {
  if (!names.empty())
    cells.push_back({case_of(row) + ": " + row.variant, joined(names), "-", "-", "-", "only in " + side});
}

}  // namespace

std::string interval_text(const Interval& interval) {
  return human_ratio(interval.middle, interval.low, interval.high) + (interval.coverage == 0 ? " few rounds" : "");
}

namespace {

/// "validation loss -0.002 [-0.01, +0.006]": B's less A's.
std::string quality_difference_text(const ComparedRow& row) {
  const auto sign = [](double value) { return (value > 0 ? "+" : "") + human_number(value); };
  return row.metric.name + " " + sign(row.quality->middle) + " [" + sign(row.quality->low) + ", " +
         sign(row.quality->high) + "]" + (row.metric.unit.empty() ? "" : " " + row.metric.unit);
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string across_text(const ComparedRow& row) {
  return row.across_a + " -> " + row.across_b + (row.scaling.empty() ? "" : ", " + row.scaling);
}

std::string rate_text(const ComparedRow& row) {
  if (row.quality) return quality_difference_text(row);
  return row.throughput ? interval_text(*row.throughput) : "-";
}

/// "81 % [78 %, 85 %]".
std::string efficiency_text(const ComparedRow& row) {
  if (!row.efficiency) return "-";
  const Interval& efficiency = *row.efficiency;
  return human_percent(efficiency.middle) + " [" + human_percent(efficiency.low) + ", " +
         human_percent(efficiency.high) + "]" + (efficiency.coverage == 0 ? " few rounds" : "");
}

std::string label_text(const ComparedRow& row) {
  if (row.throughput) return to_string(row.throughput_label);
  return row.crowded ? "crowded" : "-";
}

std::string peaks_text(const ComparedRow& row) {
  if (!row.peak_a || !row.peak_b || *row.peak_a <= 0) return "-";
  return human_ratio(static_cast<double>(*row.peak_b) / static_cast<double>(*row.peak_a));
}

std::string gain_text(const ComparedRow& row) {
  if (row.gain) return interval_text(*row.gain);
  return row.baseline ? "baseline" : "-";
}

struct ComparedColumn {
  std::string heading;
  std::string (*text)(const ComparedRow& row);
};

/// What is said of a row besides its name. `within` one set of results a technique's own speed-up is what its ranks or
/// threads bring.
std::vector<ComparedColumn> columns_of(const std::vector<ComparedRow>& rows, const std::string& across, bool within) {
  const bool modelled = std::ranges::any_of(rows, &ComparedRow::modelled);
  std::vector<ComparedColumn> columns;
  if (!across.empty()) columns.push_back({across, across_text});
  columns.push_back(
      {std::string(within ? "speed-up" : "items/s, B over A") + (modelled ? ", modelled" : ""), rate_text});
  if (!across.empty()) columns.push_back({"efficiency", efficiency_text});
  columns.push_back({"B is", label_text});
  columns.push_back({"peak", peaks_text});
  if (!within) columns.push_back({"gain, B over A", gain_text});
  columns.push_back({"bound in A", [](const ComparedRow& row) { return or_dash(row.bound_a); }});
  columns.push_back({"bound in B", [](const ComparedRow& row) { return or_dash(row.bound_b); }});
  return columns;
}

std::vector<std::string> headings(std::vector<std::string> cells, const std::vector<ComparedColumn>& columns) {
  for (const ComparedColumn& column : columns) cells.push_back(column.heading);
  return cells;
}

std::vector<std::string> values(std::vector<std::string> cells, const ComparedRow& row,
                                const std::vector<ComparedColumn>& columns) {
  for (const ComparedColumn& column : columns) cells.push_back(column.text(row));
  return cells;
}

}  // namespace

Cells compared_cells(const std::vector<ComparedRow>& rows) {
  const std::vector<ComparedColumn> columns = columns_of(rows, "", /*within=*/false);
  Cells cells = {headings({"lesson, case", "variant"}, columns)};
  for (const ComparedRow& row : rows)
    cells.push_back(values({number_of_name(row.lesson) + " " + row.case_name, row.variant}, row, columns));
  return cells;
}

Cells compared_cells_by_lesson(const std::vector<ComparedRow>& rows, const std::string& across, bool within) {
  const std::vector<ComparedColumn> columns = columns_of(rows, across, within);
  Cells cells = {headings({"variant", "case"}, columns)};
  std::string lesson;
  for (const ComparedRow& row : rows) {
    if (row.lesson != lesson) cells.push_back({lesson = row.lesson, ""});
    cells.push_back(values({"   " + row.variant, row.case_name}, row, columns));
  }
  return cells;
}

Cells noted_cells(const std::vector<NotedRow>& noted, const Sides& sides) {
  Cells cells = {{"case: look", "number", sides[0], sides[1], sides[1] + " over " + sides[0], ""}};
  for (size_t begin = 0; begin < noted.size();) {
    size_t end = begin, equal = 0;
    Cells others;
    for (; end < noted.size() && case_of(noted[end]) == case_of(noted[begin]); ++end) {
      const NotedRow& row = noted[end];
      for (const ComparedNote& note : row.notes) {
        if (note.kind == NoteKind::count && note.equal()) {
          ++equal;
          continue;
        }
        others.push_back({case_of(row) + ": " + row.variant, note.name, note_text(note.name, {note.a, note.unit}),
                          note_text(note.name, {note.b, note.unit}), ratio_text(note), verdict_text(note, row, sides)});
      }
      add_alone(others, row, row.only_a, sides[0]);
      add_alone(others, row, row.only_b, sides[1]);
    }
    if (equal > 0)
      cells.push_back(
          {case_of(noted[begin]), std::to_string(equal) + (equal == 1 ? " count" : " counts"), "-", "-", "-", "equal"});
    cells.insert(cells.end(), others.begin(), others.end());
    begin = end;
  }
  return cells;
}

Cells swept_cells(const std::vector<ComparedSweep>& sweeps, const Sides& sides) {
  Cells cells = {{"sweep, case", "technique", "at", sides[0], sides[1], "items/s, " + sides[1] + " over " + sides[0]}};
  for (const ComparedSweep& sweep : sweeps) {
    const std::string name = number_of_name(sweep.lesson) + " " + sweep.case_name;
    for (const ComparedSweep::Point& point : sweep.points) {
      cells.push_back({name, sweep.technique, sweep.setting + " " + point.value, speed_text(point.speed_a),
                       speed_text(point.speed_b), point.throughput ? interval_text(*point.throughput) : "-"});
    }
    cells.push_back({name, sweep.technique, "crossover", sweep.crossover_a, sweep.crossover_b, "-"});
  }
  return cells;
}

std::vector<std::string> refused_lines(const std::vector<RefusedRow>& refused) {
  const auto lesson_of = [](const RefusedRow& row) { return row.row.substr(0, row.row.find(", ")); };
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < refused.size();) {
    size_t end = begin + 1;
    while (end < refused.size() && refused[end].reason == refused[begin].reason &&
           lesson_of(refused[end]) == lesson_of(refused[begin]))
      ++end;
    lines.push_back((end - begin == 1 ? refused[begin].row
                                      : lesson_of(refused[begin]) + ", " + std::to_string(end - begin) + " rows") +
                    ": " + refused[begin].reason);
    begin = end;
  }
  return lines;
}

std::string in_columns(const Cells& cells, size_t width) {
  return cells.size() > 1 ? format_columns(cells, std::string(cells[0].size(), 'l'), width) : "";
}

}  // namespace tenfold
