#include "common/pages/rows/comparison_text.h"

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

std::string efficiency_text(const Interval& efficiency) {
  return human_percent(efficiency.middle) + " [" + human_percent(efficiency.low) + ", " +
         human_percent(efficiency.high) + "]" + (efficiency.coverage == 0 ? " few rounds" : "");
}

std::string quality_difference_text(const ComparedRow& row) {
  const auto sign = [](double value) { return (value > 0 ? "+" : "") + human_number(value); };
  return row.metric.name + " " + sign(row.quality->middle) + " [" + sign(row.quality->low) + ", " +
         sign(row.quality->high) + "]" + (row.metric.unit.empty() ? "" : " " + row.metric.unit);
}

Cells compared_cells(const std::vector<ComparedRow>& rows) {
  Cells cells = {
      {"lesson, case", "variant", "items/s, B over A", "B is", "peak", "gain, B over A", "bound in A", "bound in B"}};
  for (const ComparedRow& row : rows) {
    const bool peaks = row.peak_a && row.peak_b && *row.peak_a > 0;
    cells.push_back({number_of_name(row.lesson) + " " + row.case_name, row.variant,
                     row.quality      ? quality_difference_text(row)
                     : row.throughput ? interval_text(*row.throughput)
                                      : "-",
                     row.throughput ? to_string(row.throughput_label)
                     : row.crowded  ? "crowded"
                                    : "-",
                     peaks ? human_ratio(static_cast<double>(*row.peak_b) / static_cast<double>(*row.peak_a)) : "-",
                     row.gain       ? interval_text(*row.gain)
                     : row.baseline ? "baseline"
                                    : "-",
                     row.bound_a.empty() ? "-" : row.bound_a, row.bound_b.empty() ? "-" : row.bound_b});
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
