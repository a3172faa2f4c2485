// compare: two sets of results side by side, or one across a part of its rows.

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "common/cli/commands.h"
#include "common/cli/compare_set.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/compare_sweeps.h"
#include "common/pages/rows/comparison_text.h"
#include "common/pages/rows/kernel_rows.h"
#include "common/pages/rows/machine_card.h"
#include "common/result/compare_results.h"

namespace tenfold::cli {
namespace {

std::string about(const std::string& letter, const ComparedSet& set) {
  const std::string name = letter.empty() ? set.path : letter + " = " + set.path;
  const std::vector<Result>& results = set.first();
  if (results.empty()) {
    const bool empty = set.kernels.empty();
    const std::string commit = empty ? "" : set.kernels.front().commit.substr(0, 10);
    return name + ": " + (empty ? "no time of a kernel" : set.kernels.front().gpu) +
           (commit.empty() ? "" : ", commit " + commit);
  }
  const Result& first = results.front();
  std::string commit = first.commit.empty() ? "unknown commit" : "commit " + first.commit.substr(0, 10);
  for (const Result& result : results) {
    if (result.commit != first.commit) commit = "several commits";
  }
  return name + ": " + machine_text(first.machine) + ", " + commit + ", " + first.started_at.substr(0, 10);
}

/// A table under its heading; nothing where it has no row.
void print_cells(const std::string& heading, const Cells& cells) {
  if (cells.size() > 1) std::cout << "\n" << heading << "\n" << in_columns(cells);
}

void print_refused(const std::vector<RefusedRow>& refused) {
  if (!refused.empty()) std::cout << "\nNot compared:\n";
  for (const std::string& line : refused_lines(refused)) std::cout << "  " << wrap_text(line, 118, 6) << "\n";
}

/// What two sides have in common, and what of either has no partner. Across a part there are rows alone.
struct Compared {
  Comparison comparison = {};
  std::vector<ComparedSweep> sweeps = {};
  std::vector<ComparedKernel> kernels = {};

  bool empty() const {
    return comparison.rows.empty() && comparison.noted.empty() && sweeps.empty() && kernels.empty();
  }
};

/// What sweeps noted, and what of sweeps and kernels was refused, stands with the rest.
Compared compare_sets(const ComparedSet& a, const ComparedSet& b, const std::string& across) {
  if (!across.empty()) return {.comparison = compare_results(a.first(), b.first(), across)};
  Compared all{.comparison = compare_results(a.results, b.results)};
  ComparedSweeps sweeps = compare_sweeps(a.sweeps, b.sweeps);
  all.sweeps = std::move(sweeps.sweeps);
  std::ranges::move(sweeps.noted, std::back_inserter(all.comparison.noted));
  std::ranges::move(sweeps.refused, std::back_inserter(all.comparison.refused));
  ComparedKernels kernels = compare_kernels(a.kernels, b.kernels);
  all.kernels = std::move(kernels.rows);
  std::ranges::move(kernels.refused, std::back_inserter(all.comparison.refused));
  return all;
}

nlohmann::ordered_json interval_json(const Interval& interval) {
  return {{"ratio", interval.middle}, {"low", interval.low}, {"high", interval.high}, {"coverage", interval.coverage}};
}

nlohmann::ordered_json noted_json(const NotedRow& row) {
  nlohmann::ordered_json json = {{"lesson", row.lesson},
                                 {"case", row.case_name},
                                 {"ranks", row.ranks},
                                 {"look", row.variant},
                                 {"notes", nlohmann::ordered_json::array()}};
  for (const ComparedNote& note : row.notes) {
    nlohmann::ordered_json entry = {{"name", note.name}, {"unit", note.unit}, {"a", note.a}, {"b", note.b}};
    if (note.kind == NoteKind::count) {
      entry["equal"] = note.equal();
    } else if (note.ratio()) {
      entry["ratio"] = *note.ratio();
    }
    if (note.interval_a && note.interval_b) {
      entry["interval_a"] = {note.interval_a->low, note.interval_a->high};
      entry["interval_b"] = {note.interval_b->low, note.interval_b->high};
    }
    json["notes"].push_back(entry);
  }
  return json;
}

nlohmann::ordered_json kernel_json(const ComparedKernel& kernel) {
  return {{"row", kernel.b.label()},
          {"speed", interval_json(kernel.speed)},
          {"ceiling_a", share_of_ceiling(kernel.a)},
          {"ceiling_b", share_of_ceiling(kernel.b)}};
}

nlohmann::ordered_json sweep_json(const ComparedSweep& sweep) {
  nlohmann::ordered_json json = {{"lesson", sweep.lesson},
                                 {"case", sweep.case_name},
                                 {"setting", sweep.setting},
                                 {"technique", sweep.technique},
                                 {"crossover_a", sweep.crossover_a},
                                 {"crossover_b", sweep.crossover_b},
                                 {"points", nlohmann::ordered_json::array()}};
  for (const ComparedSweep::Point& point : sweep.points) {
    nlohmann::ordered_json entry = {{"value", point.value}};
    if (point.throughput) entry["throughput"] = interval_json(*point.throughput);
    json["points"].push_back(entry);
  }
  return json;
}

nlohmann::ordered_json comparison_json(const std::string& a, const std::string& b, const Compared& compared) {
  const Comparison& comparison = compared.comparison;
  nlohmann::ordered_json json = {{"a", a},
                                 {"b", b},
                                 {"rows", nlohmann::ordered_json::array()},
                                 {"noted", nlohmann::ordered_json::array()},
                                 {"sweeps", nlohmann::ordered_json::array()},
                                 {"kernels", nlohmann::ordered_json::array()},
                                 {"refused", nlohmann::ordered_json::array()}};
  for (const ComparedRow& row : comparison.rows) {
    nlohmann::ordered_json entry = {{"identity", row.identity}};
    if (row.throughput) {
      entry["throughput"] = interval_json(*row.throughput);
      entry["label"] = to_string(row.throughput_label);
    }
    if (row.quality) {
      entry["quality"] = {{"metric", row.metric.name},
                          {"difference", row.quality->middle},
                          {"low", row.quality->low},
                          {"high", row.quality->high}};
    }
    if (row.gain) entry["gain"] = interval_json(*row.gain);
    if (row.efficiency) entry["efficiency"] = interval_json(*row.efficiency);
    if (!row.scaling.empty()) entry["scaling"] = row.scaling;
    if (row.crowded) entry["crowded"] = true;
    if (!row.across_a.empty()) entry["across"] = {row.across_a, row.across_b};
    if (row.peak_a && row.peak_b) entry["peak_bytes"] = {*row.peak_a, *row.peak_b};
    if (!row.bound_a.empty()) entry["bound_a"] = row.bound_a;
    if (!row.bound_b.empty()) entry["bound_b"] = row.bound_b;
    json["rows"].push_back(entry);
  }
  for (const NotedRow& row : comparison.noted) json["noted"].push_back(noted_json(row));
  for (const ComparedSweep& sweep : compared.sweeps) json["sweeps"].push_back(sweep_json(sweep));
  for (const ComparedKernel& kernel : compared.kernels) json["kernels"].push_back(kernel_json(kernel));
  for (const RefusedRow& refused : comparison.refused)
    json["refused"].push_back({{"row", refused.row}, {"reason", refused.reason}});
  return json;
}

/// What the columns mean.
void print_legend(const std::vector<Compared>& compared, const std::string& across, bool within) {
  const auto any = [&](auto has) { return std::ranges::any_of(compared, has); };
  const bool noted = any([](const Compared& each) { return !each.comparison.noted.empty(); });
  const bool kernels = any([](const Compared& each) { return !each.kernels.empty(); });
  const bool crowded =
      any([](const Compared& each) { return std::ranges::any_of(each.comparison.rows, &ComparedRow::crowded); });
  std::cout << "\nIntervals hold with at least 95 % for the rounds recorded; how much another run would differ is "
               "not in them.\n"
            << (within ? "" : "gain: the technique's own speed-up over its baseline. ")
            << "bound: the largest part of a step.\n"
            << (noted ? "Counts must be equal. A noted time, rate or share without an interval decides nothing.\n" : "")
            << (kernels ? "A kernel's ceiling: its maker's bytes/s and FLOP/s, else the copy of the same rounds.\n"
                        : "")
            << (across == "size" ? "Sizes differ in how much they compute for an item.\n" : "")
            << (across == "ranks" || across == "threads"
                    ? "efficiency: the gain in items/s over how many times as many " + across + " B has.\n"
                    : "")
            << (across == "ranks" ? "strong: the same batch on all ranks together; weak: the same on each of them.\n"
                                  : "")
            << (crowded ? "crowded: more ranks than cores take turns, so their times are no speed.\n" : "");
}

std::string first_refusal(const std::vector<Compared>& compared) {
  for (const Compared& each : compared) {
    if (const auto& refused = each.comparison.refused; !refused.empty())
      return refused[0].row + ": " + refused[0].reason;
  }
  return "";
}

}  // namespace

int compare(const std::vector<std::string>& paths, bool json, const std::string& across) {
  const bool within = paths.size() == 1;
  if (within && across.empty())
    throw UsageError(
        "compare needs two or more result files or folders, or one and --across; see: ./tenfold compare "
        "--help");
  std::vector<ComparedSet> sets;
  for (const std::string& path : paths) sets.push_back(read_set(path));
  std::vector<Compared> compared;
  if (within) compared.push_back({.comparison = compare_within(sets[0].first(), across)});
  for (size_t i = 1; i < sets.size(); ++i) compared.push_back(compare_sets(sets[0], sets[i], across));
  if (std::ranges::all_of(compared, &Compared::empty))
    throw UsageError("nothing to compare: no row was measured " +
                     (within ? "with several " + across : "alike on both sides") + "; " + first_refusal(compared));
  auto all = nlohmann::ordered_json::array();
  for (size_t i = 0; i < compared.size(); ++i) {
    const ComparedSet &a = sets[0], &b = sets[within ? 0 : i + 1];
    if (json) {
      all.push_back(comparison_json(a.path, b.path, compared[i]));
      continue;
    }
    if (within) {
      std::cout << wrap_text(about("", a), 120, 4) << "\nA = "
                << (across == "ranks" || across == "threads" ? "the row of the fewest " + across : "the first row")
                << ", B = each other\n\n";
    } else {
      std::cout << (i > 0 ? "\n" : "") << wrap_text(about("A", a), 120, 4) << "\n"
                << wrap_text(about("B", b), 120, 4) << "\n\n";
      if (a.machine() != nullptr && b.machine() != nullptr)
        std::cout << in_columns(machine_cells(*a.machine(), *b.machine()))
                  << wrap_text(makers_text(*a.machine(), *b.machine()), 120) << "\n\n";
    }
    std::cout << in_columns(compared_cells_by_lesson(compared[i].comparison.rows, across, within),
                            across.empty() ? 120 : 140);
    print_cells("Noted numbers:", noted_cells(compared[i].comparison.noted, kAB));
    print_cells("Sweeps:", swept_cells(compared[i].sweeps, kAB));
    print_cells("Kernels:", kernel_cells(compared[i].kernels, kAB));
    print_refused(compared[i].comparison.refused);
  }
  if (json) {
    std::cout << nlohmann::ordered_json{{"comparisons", all}}.dump(1) << "\n";
  } else {
    print_legend(compared, across, within);
  }
  return 0;
}

}  // namespace tenfold::cli
