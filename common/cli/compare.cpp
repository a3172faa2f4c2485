// compare and reproduce: two sets of results side by side.

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "common/machine/hardware.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/quality_words.h"
#include "common/pages/rows/sweeps.h"
#include "common/pages/rows/verdict_words.h"
#include "common/result/code_hash.h"
#include "common/result/compare_results.h"

#include "common/base/process.h"
#include "common/cli/commands.h"
#include "common/cli/paths.h"
#include "common/cli/run_lesson.h"
#include "common/cli/this_machine.h"

namespace tenfold::cli {
namespace {

namespace fs = std::filesystem;

/// "81 % [78 %, 85 %]"
std::string efficiency_text(const Interval& interval) {
  return human_percent(interval.middle) + " [" + human_percent(interval.low) + ", " + human_percent(interval.high) +
         "]" + (interval.coverage == 0 ? " few rounds" : "");
}

std::string interval_text(const Interval& interval) {
  const auto bare = [](double v) { return human_ratio(v).substr(0, human_ratio(v).size() - 1); };
  return human_ratio(interval.middle) + " [" + bare(interval.low) + ", " + bare(interval.high) + "]" +
         (interval.coverage == 0 ? " few rounds" : "");
}

/// Throws UsageError unless all results are of one machine: rows of two would stand in one column.
void require_one_machine(const std::string& path, const std::vector<Result>& results) {
  const Machine& first = results.front().machine;
  for (const Result& result : results) {
    const Machine& machine = result.machine;
    if (machine.id == first.id && (is_dry(machine) || same_hardware(machine, first))) continue;
    throw UsageError(path + ": holds results of two machines, " + first.id + " (" + hardware_text(first) + ") and " +
                     machine.id + " (" + hardware_text(machine) + "); name the folder of one");
  }
}

std::string about(const std::string& letter, const std::string& path, const std::vector<Result>& results) {
  const Result& first = results.front();
  const std::string name = letter.empty() ? path : letter + " = " + path;
  std::string commit = first.commit.empty() ? "unknown commit" : "commit " + first.commit.substr(0, 10);
  for (const Result& result : results) {
    if (result.commit != first.commit) commit = "several commits";
  }
  return name + ": " + machine_text(first.machine) + ", " + commit + ", " + first.started_at.substr(0, 10);
}

/// "validation loss -0.002 [-0.01, +0.006]": B's less A's.
std::string quality_difference_text(const ComparedRow& row) {
  const auto sign = [](double value) { return (value > 0 ? "+" : "") + human_number(value); };
  return row.metric.name + " " + sign(row.quality->middle) + " [" + sign(row.quality->low) + ", " +
         sign(row.quality->high) + "]" + (row.metric.unit.empty() ? "" : " " + row.metric.unit);
}

/// What both machines can do at most, where both were probed.
std::string ceilings_text(const Machine& a, const Machine& b) {
  std::vector<std::vector<std::string>> rows = {{"ceiling", "A", "B", "B over A"}};
  for (const auto& [name, value] : a.ceilings) {
    const auto other = b.ceilings.find(name);
    if (other == b.ceilings.end()) continue;
    rows.push_back({name, human_number(value), human_number(other->second), human_ratio(other->second / value)});
  }
  return rows.size() > 1 ? format_columns(rows, "lrrr") + "\n" : "";
}

/// `within` one set of results there is one machine, and a technique's own speed-up is what its ranks or threads bring.
void print_comparison(const Comparison& comparison, const std::string& across, bool within) {
  std::vector<std::vector<std::string>> rows = {
      {"variant", "case", "items/s, B over A", "B is", "peak", "gain, B over A", "bound in A", "bound in B"}};
  constexpr std::ptrdiff_t kAcrossAt = 2, kRate = 3, kEfficiencyAt = 4, kGain = 7;  // where `across` adds two columns
  if (!across.empty()) {
    rows[0].insert(rows[0].begin() + kAcrossAt, across);
    rows[0].insert(rows[0].begin() + kEfficiencyAt, "efficiency");
  }
  std::string lesson;
  for (const ComparedRow& row : comparison.rows) {
    if (row.lesson != lesson) rows.push_back({lesson = row.lesson, ""});
    const bool peaks = row.peak_a && row.peak_b && *row.peak_a > 0;
    rows.push_back({"   " + row.variant, row.case_name,
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
    if (across.empty()) continue;
    std::vector<std::string>& cells = rows.back();
    cells.insert(cells.begin() + kAcrossAt,
                 row.across_a + " -> " + row.across_b + (row.scaling.empty() ? "" : ", " + row.scaling));
    cells.insert(cells.begin() + kEfficiencyAt, row.efficiency ? efficiency_text(*row.efficiency) : "-");
  }
  if (within) {
    rows[0][kRate] = "speed-up";
    for (std::vector<std::string>& cells : rows) {
      if (cells.size() > kGain) cells.erase(cells.begin() + kGain);
    }
  }
  std::cout << format_columns(rows, std::string(rows[0].size(), 'l'), across.empty() ? 120 : 140);
  if (!comparison.refused.empty()) std::cout << "\nNot compared:\n";
  for (const RefusedRow& refused : comparison.refused)
    std::cout << "  " << wrap_text(refused.row + ": " + refused.reason, 118, 6) << "\n";
}

nlohmann::ordered_json interval_json(const Interval& interval) {
  return {{"ratio", interval.middle}, {"low", interval.low}, {"high", interval.high}, {"coverage", interval.coverage}};
}

nlohmann::ordered_json comparison_json(const std::string& a, const std::string& b, const Comparison& comparison) {
  nlohmann::ordered_json json = {
      {"a", a}, {"b", b}, {"rows", nlohmann::ordered_json::array()}, {"refused", nlohmann::ordered_json::array()}};
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
  for (const RefusedRow& refused : comparison.refused)
    json["refused"].push_back({{"row", refused.row}, {"reason", refused.reason}});
  return json;
}

// --- reproduce -----------------------------------------------------------------------------------------------------

/// As --device names it.
std::string device_of(const Result& result) {
  if (!is_dry(result.machine)) return result.cases.front().device;
  return "dry:" + result.machine.id.substr(std::string(kDryMachine).size());
}

/// The part of the lesson that a case is of; nullptr when the lesson has it no more.
const LessonPart* part_of(const std::vector<LessonPart>& parts, const CaseResult& c) {
  const auto found = std::ranges::find(parts, c.sweep ? swept_case(c) : c.name, &LessonPart::name);
  return found == parts.end() ? nullptr : &*found;
}

/// "1,2,4" of the cases that take as many ranks as there are; empty when none does.
std::string ranks_of(const Lesson& lesson, const Result& result) {
  const std::vector<LessonPart> parts = lesson.parts();
  std::vector<std::string> numbers;
  for (const CaseResult& c : result.cases) {
    const LessonPart* const part = part_of(parts, c);
    const std::string number = std::to_string(c.ranks);
    if (part != nullptr && part->ranks.as_many && std::ranges::find(numbers, number) == numbers.end())
      numbers.push_back(number);
  }
  return joined(numbers, ",");
}

/// The flags that repeat a result: what selects cases and settings comes from its command line, the rest from what was
/// recorded, since defaults may have been chosen by the machine.
GivenFlags flags_of(const Lesson& lesson, const Result& result) {
  GivenFlags flags;
  for (size_t i = 0; i + 1 < result.argv.size(); ++i) {
    for (const char* name : {"--case", "--only", "--set", "--sweep", "--rounds"}) {
      if (result.argv[i] == name) flags[name].push_back(result.argv[i + 1]);
    }
  }
  const CaseResult& c = result.cases.front();
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"--preset", c.preset},
                                                        {"--size", c.size},
                                                        {"--device", device_of(result)},
                                                        {"--seed", std::to_string(c.seed)},
                                                        {"--ranks", ranks_of(lesson, result)},
                                                        {"--threads", std::to_string(c.threads)}}) {
    if (!value.empty()) flags[name] = {value};
  }
  return flags;
}

/// Why nothing of a published result can run here, known before its lesson is started; empty when it may run.
std::string cannot_reproduce(const Result& theirs, const Machine& here) {
  if (theirs.cases.front().device == "cuda" && here.gpus.empty())
    return "it was measured on a CUDA device and this machine has none";
  return "";
}

/// Why a lesson that ended with "nothing can run here" says so: its baseline's reason, when it wrote one.
std::string why_nothing_ran(const fs::path& file) {
  if (fs::exists(file)) {
    const Result ours = read_result(file);
    for (const CaseResult& c : ours.cases) {
      for (const VariantResult& variant : c.variants) {
        if (!variant.reason.empty()) return variant.reason;
      }
    }
  }
  return meaning_of(kNothingRan);
}

/// FASTER against SLOWER; memory likewise; a run that was valid for one and not for the other; else whether both
/// intervals of the speed ratio can be of one truth.
std::string change_of(const Verdict& theirs, const Verdict& ours) {
  const auto opposite = [](const std::string& x, const std::string& y, const char* one, const char* other) {
    return (x == one && y == other) || (x == other && y == one);
  };
  if (opposite(theirs.speed.label, ours.speed.label, "FASTER", "SLOWER")) return "SIGN CHANGED";
  if (opposite(theirs.memory.label, ours.memory.label, "SMALLER", "LARGER")) return "SIGN CHANGED (memory)";
  if (theirs.quality && ours.quality && opposite(theirs.quality->label, ours.quality->label, "NOT WORSE", "WORSE"))
    return "SIGN CHANGED (quality)";
  if ((theirs.speed.label == "INVALID") != (ours.speed.label == "INVALID") && ours.speed.label != "SKIPPED" &&
      theirs.speed.label != "SKIPPED")
    return "VALIDITY CHANGED";
  const bool trained = theirs.quality && ours.quality;
  const auto &low = trained ? theirs.quality->low : theirs.speed.low,
             &high = trained ? theirs.quality->high : theirs.speed.high,
             &own_low = trained ? ours.quality->low : ours.speed.low,
             &own_high = trained ? ours.quality->high : ours.speed.high;
  if (!low || !own_low || !high || !own_high) return "";
  const bool meet = *low <= *own_high && *own_low <= *high;
  return meet ? "intervals meet" : *high < *own_low ? "yours is higher" : "yours is lower";
}

/// A case may have been measured on several numbers of ranks.
bool same_case(const CaseResult& a, const CaseResult& b) { return a.name == b.name && a.ranks == b.ranks; }

void print_beside(const Result& theirs, const Result& ours) {
  std::vector<std::vector<std::string>> rows = {
      {"technique", "case", "theirs", "yours", "memory, theirs", "yours", "change"}};
  for (const CaseResult& c : theirs.cases) {
    const auto mine = std::ranges::find_if(ours.cases, [&](const CaseResult& other) { return same_case(other, c); });
    for (const Verdict& verdict : c.verdicts) {
      const Verdict* own = mine == ours.cases.end() ? nullptr : verdict_of(*mine, verdict.technique);
      const auto text = [](const Verdict& one) {
        return one.quality ? quality_verdict_text(*one.quality) : speed_text(one.speed);
      };
      rows.push_back({verdict.technique, c.name + (c.ranks > 1 ? ", " + std::to_string(c.ranks) + " ranks" : ""),
                      text(verdict), own ? text(*own) : "not run", memory_text(verdict.memory),
                      own ? memory_text(own->memory) : "-", own ? change_of(verdict, *own) : ""});
    }
  }
  std::cout << format_columns(rows, "lllllll", 140) << "\n";
}

}  // namespace

namespace {

/// What the columns mean.
void print_legend(const std::vector<Comparison>& comparisons, const std::string& across, bool within) {
  const bool crowded = std::ranges::any_of(
      comparisons, [](const Comparison& each) { return std::ranges::any_of(each.rows, &ComparedRow::crowded); });
  std::cout << "\nIntervals hold with at least 95 % for the rounds recorded; how much another run would differ is "
               "not in them.\n"
            << (within ? "" : "gain: the technique's own speed-up over its baseline. ")
            << "bound: the largest part of a step.\n"
            << (across == "size" ? "Sizes differ in how much they compute for an item.\n" : "")
            << (across == "ranks" || across == "threads"
                    ? "efficiency: the gain in items/s over how many times as many " + across + " B has.\n"
                    : "")
            << (across == "ranks" ? "strong: the same batch on all ranks together; weak: the same on each of them.\n"
                                  : "")
            << (crowded ? "crowded: more ranks than cores take turns, so their times are no speed.\n" : "");
}

std::string first_refusal(const std::vector<Comparison>& comparisons) {
  for (const Comparison& comparison : comparisons) {
    if (!comparison.refused.empty()) return comparison.refused[0].row + ": " + comparison.refused[0].reason;
  }
  return "";
}

}  // namespace

int compare(const std::vector<std::string>& paths, bool json, const std::string& across) {
  const bool within = paths.size() == 1;
  if (within && across.empty())
    throw UsageError(
        "compare needs two or more result files or folders, or one and --across; see: tenfold compare "
        "--help");
  std::vector<std::vector<Result>> sets;
  for (const std::string& path : paths) {
    sets.push_back(read_results(path));
    require_one_machine(path, sets.back());
  }
  std::vector<Comparison> comparisons;
  if (within) comparisons.push_back(compare_within(sets[0], across));
  for (size_t i = 1; i < sets.size(); ++i) comparisons.push_back(compare_results(sets[0], sets[i], across));
  if (std::ranges::all_of(comparisons, [](const Comparison& each) { return each.rows.empty(); }))
    throw UsageError("nothing to compare: no row was measured " +
                     (within ? "with several " + across : "alike on both sides") + "; " + first_refusal(comparisons));
  auto all = nlohmann::ordered_json::array();
  for (size_t i = 0; i < comparisons.size(); ++i) {
    const size_t other = within ? 0 : i + 1;
    if (json) {
      all.push_back(comparison_json(paths[0], paths[other], comparisons[i]));
      continue;
    }
    if (within) {
      std::cout << wrap_text(about("", paths[0], sets[0]), 120, 4) << "\nA = "
                << (across == "ranks" || across == "threads" ? "the row of the fewest " + across : "the first row")
                << ", B = each other\n\n";
    } else {
      std::cout << (i > 0 ? "\n" : "") << wrap_text(about("A", paths[0], sets[0]), 120, 4) << "\n"
                << wrap_text(about("B", paths[other], sets[other]), 120, 4) << "\n\n"
                << ceilings_text(sets[0].front().machine, sets[other].front().machine);
    }
    print_comparison(comparisons[i], across, within);
  }
  if (json) {
    std::cout << nlohmann::ordered_json{{"comparisons", all}}.dump(1) << "\n";
  } else {
    print_legend(comparisons, across, within);
  }
  return 0;
}

int reproduce(const std::string& path, const std::string& out_option) {
  const std::vector<Result> published = read_results(path);
  const std::vector<Lesson> lessons = find_lessons();
  std::vector<const Lesson*> chosen;
  for (const Result& theirs : published) {
    if (theirs.cases.empty())
      throw UsageError(path + ": " + theirs.lesson + " holds no case; there is nothing to reproduce");
    chosen.push_back(&resolve_lesson(lessons, theirs.lesson));
  }
  const fs::path out = out_option.empty() ? out_folder("") / "reproduced" : fs::absolute(out_option);
  require_writable_folder(out);
  const Machine& here = this_machine();
  if (!out_option.empty()) require_own_folder(out, here);
  fs::create_directories(out);
  Display display;
  int worst = 0;
  int changes = 0;
  size_t skipped = 0;
  for (size_t i = 0; i < published.size() && !asked_to_stop(); ++i) {
    const Result& theirs = published[i];
    const fs::path file = out / (theirs.lesson + ".json");
    std::error_code ignored;
    fs::remove(file, ignored);
    const auto print_theirs = [&] {
      std::cout << theirs.lesson << "\n  theirs: " << machine_text(theirs.machine) << ", "
                << theirs.started_at.substr(0, 10) << "\n";
    };
    const auto skip = [&](const std::string& why) {
      print_theirs();
      std::cout << "  yours:  skipped: " << why << "\n\n";
      ++skipped;
    };
    if (const std::string why = cannot_reproduce(theirs, here); !why.empty()) {
      skip(why);
      continue;
    }
    LessonStart start;
    start.flags = flags_of(*chosen[i], theirs);
    start.flags["--json"] = {file.string()};
    start.output_file = out / (theirs.lesson + ".log");
    start.errors_to_file = true;
    start.from = static_cast<double>(i) / static_cast<double>(published.size()),
    start.to = static_cast<double>(i + 1) / static_cast<double>(published.size());
    start.label = theirs.lesson + ": ";
    const LessonEnd end = run_lesson(*chosen[i], start, display);
    display.clear();
    if (end.code == kNothingRan) {
      skip(why_nothing_ran(file));
      continue;
    }
    print_theirs();
    if (!fs::exists(file)) {
      std::cout << "  yours:  not run: " << (end.problem.empty() ? meaning_of(end.code) : end.problem) << "\n\n";
      worst = 1;
      continue;
    }
    const Result ours = read_result(file);
    std::cout << "  yours:  " << machine_text(ours.machine) << ", " << ours.started_at.substr(0, 10) << "\n";
    if (theirs.lesson_version != ours.lesson_version || theirs.code_hash != ours.code_hash)
      std::cout << "  the lesson's code has changed since theirs was measured\n";
    print_beside(theirs, ours);
    for (const CaseResult& c : theirs.cases) {
      for (const CaseResult& mine : ours.cases) {
        for (const Verdict& verdict : c.verdicts) {
          const Verdict* own = same_case(mine, c) ? verdict_of(mine, verdict.technique) : nullptr;
          if (own && change_of(verdict, *own).find("CHANGED") != std::string::npos) ++changes;
        }
      }
    }
    if (end.code == 1 || end.code > 130) worst = 1;
  }
  if (skipped == published.size()) {
    std::cout << "nothing of it can run on this machine\n";
    return kNothingRan;
  }
  if (skipped > 0) std::cout << skipped << " of " << published.size() << " results skipped; ";
  std::cout << (changes == 0 ? "no verdict changed its sign"
                             : std::to_string(changes) + (changes == 1 ? " verdict" : " verdicts") + " changed")
            << "; your results: " << shown(out) << "\n";
  return asked_to_stop() ? kInterrupted : worst;
}

}  // namespace tenfold::cli
