#include "common/pages/book/one_gpt.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "common/base/text.h"
#include "common/pages/book/dry_tables.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/markdown_table.h"
#include "common/pages/rows/references.h"
#include "common/pages/rows/rows.h"
#include "common/pages/rows/verdict_words.h"
#include "common/result/code_hash.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using Stated = std::map<std::string, std::string>;

constexpr const char* kCase = "gpt";
constexpr size_t kNamedAtMost = 2;    // settings that a file does not state
constexpr double kSamePeak = 0.01;    // as verdicts call it: SMALLER and LARGER begin there
constexpr double kSameLosses = 1e-4;  // relative: sums in another order, of another number of threads

/// A lesson's case on the machine.
struct Run {
  const Result* result;
  const CaseResult* c;

  const VariantResult& baseline() const { return c->variants.front(); }
  /// Of the baseline, and of the kind that all lessons have, whatever kind this one judges by.
  double peak() const {
    VariantResult same = baseline();
    same.judged_peak.reset();
    return static_cast<double>(same.peak().value_or(0));
  }
};

std::vector<Run> runs_of(const std::vector<Result>& of_machine) {
  std::vector<Run> runs;
  for (const Result& result : of_machine) {
    for (const CaseResult& c : result.cases) {
      if (c.name == kCase && !c.metric && !c.verdicts.empty()) runs.push_back({&result, &c});
    }
  }
  return runs;
}

/// What a case says of its work. The ranks are not among it: that is what a technique on several is about.
Stated stated_of(const CaseResult& c) {
  Stated stated = {{"size", c.size},
                   {"dtype", c.dtype},
                   {"threads", std::to_string(c.threads)},
                   {"seed", std::to_string(c.seed)},
                   {"preset", c.preset}};
  for (const auto& [name, value] : c.settings) stated[name] = to_string(value);
  return stated;
}

/// What more than half of the runs state, with the value that most give.
Stated common_settings(const std::vector<Run>& runs) {
  std::map<std::string, std::map<std::string, size_t>> counts;
  for (const Run& run : runs) {
    for (const auto& [name, value] : stated_of(*run.c)) ++counts[name][value];
  }
  Stated common;
  for (const auto& [name, values] : counts) {
    size_t all = 0;
    auto most = values.begin();
    for (auto at = values.begin(); at != values.end(); ++at) {
      all += at->second;
      if (at->second > most->second) most = at;
    }
    if (2 * all > runs.size()) common[name] = most->first;
  }
  return common;
}

/// "batch=16, layers=12"; "layers not stated" of a file that says less.
std::string changed_text(const CaseResult& c, const Stated& common) {
  const Stated own = stated_of(c);
  std::vector<std::string> changed, missing;
  for (const auto& [name, value] : common) {
    const auto found = own.find(name);
    if (found == own.end())
      missing.push_back(name);
    else if (found->second != value)
      changed.push_back(name + "=" + found->second);
  }
  if (missing.size() > kNamedAtMost) missing = {std::to_string(missing.size()) + " settings"};
  if (!missing.empty()) changed.push_back(joined(missing) + " not stated");
  return joined(changed, ", ");
}

bool same_losses(const VariantResult& a, const VariantResult& b) {
  return std::ranges::equal(a.losses, b.losses, [](double one, double other) {
    return std::abs(one - other) <= kSameLosses * std::abs(other);
  });
}

std::string link_to(const Run& run, const Page& page) {
  const fs::path file = page.root / "lessons" / run.result->lesson / "README.md";
  return "[" + number_of_name(run.result->lesson) + "](" +
         file.lexically_relative(page.path.parent_path()).generic_string() + ")";
}

/// A technique's row with where it comes from. Traps and what no such machine can run are on the lessons' pages.
struct TechniqueRow {
  std::string lesson;
  double peak;
  bool plain;
  std::vector<std::string> cells;
};

/// What the technique was compared with, where that is not the plain step.
std::string against_text(const VariantResult& baseline) {
  return "<br>against *" + markdown_cell(baseline.name) + "*, " + markdown_cell(peak_text(baseline));
}

/// Of a step whose arithmetic nobody has compared there is no speed.
std::string modelled_text(const Run& run, const VariantRow& row) {
  if (row.at(Column::agreement).text == "-" && row.variant->status != "invalid") return "-";
  return ratio_text(row.verdict->speed) + host_mark(*row.variant, run.baseline());
}

void add_rows(std::vector<TechniqueRow>& rows, const Run& run, bool plain, const Page& page) {
  const bool stale = run.result->code_hash != code_hash(page.root / "lessons" / run.result->lesson);
  const CaseRows of_case = rows_of(*run.c);
  for (const VariantRow& row : of_case.rows) {
    const VariantResult& variant = *row.variant;
    const bool meant =
        !variant.expected || variant.expected->kind == "technique" || variant.expected->kind == "mistake";
    if (row.verdict == nullptr || variant.status == "skipped" || !meant) continue;
    const std::string ranks = run.c->ranks > 1 ? ", " + std::to_string(run.c->ranks) + " ranks" : "";
    const std::string mistake = variant.expected && variant.expected->kind == "mistake" ? " (a mistake)" : "";
    const std::string memory = row.at(Column::memory).text;
    const std::string agreement = row.at(variant.status == "invalid" ? Column::expected : Column::agreement).text;
    rows.push_back({.lesson = run.result->lesson,
                    .peak = static_cast<double>(variant.peak().value_or(0)),
                    .plain = plain,
                    .cells = {link_to(run, page) + " " + markdown_cell(row.name + ranks + mistake) +
                                  (stale ? " (earlier code)" : "") + (plain ? "" : against_text(run.baseline())) +
                                  "<br>" + markdown_cell(agreement == "-" ? "agreement not compared" : agreement),
                              markdown_cell(row.at(Column::peak).text + (memory == "-" ? "" : ", " + memory)),
                              markdown_cell(run.c->device == "dry" ? modelled_text(run, row) : row.speed().text)}});
  }
}

std::string table_of(std::vector<TechniqueRow> rows, bool plain, bool dry) {
  std::erase_if(rows, [&](const TechniqueRow& row) { return row.plain != plain; });
  if (rows.empty()) return "";
  // Of other steps only those of one lesson can be compared.
  std::ranges::stable_sort(rows, {},
                           [](const TechniqueRow& row) { return std::pair(row.plain ? "" : row.lesson, row.peak); });
  std::vector<std::vector<std::string>> cells = {{"technique, agreement",
                                                  dry ? "peak and memory, counted" : "peak and memory",
                                                  dry ? "speed, modelled" : "speed"}};
  for (TechniqueRow& row : rows) cells.push_back(std::move(row.cells));
  return std::string("\n**Against ") + (plain ? "the plain step" : "another step of the same GPT") + ":**\n\n" +
         markdown_table(cells);
}

/// "16.3 k to 21.5 k"; one text where they are the same.
std::string from_to(const std::string& low, const std::string& high) { return low == high ? low : low + " to " + high; }

/// How far one and the same step lies apart from lesson to lesson.
std::string spread_text(const std::vector<Run>& plain, bool dry) {
  std::vector<double> rates, peaks;
  for (const Run& run : plain) {
    const double rate = items_per_second(run.baseline());
    if (rate > 0) rates.push_back(rate);
    peaks.push_back(run.peak());
  }
  const auto [low, high] = std::ranges::minmax(peaks);
  std::string text = "The plain step ran in " + std::to_string(plain.size()) +
                     (plain.size() == 1 ? " lesson" : " lessons") + ": peak " +
                     from_to(human_bytes(low), human_bytes(high));
  if (rates.empty()) return text + ".\n";
  if (plain.size() == 1) return text + ", " + human_number(rates[0]) + " tokens/s" + (dry ? " modelled" : "") + ".\n";
  const auto [slow, fast] = std::ranges::minmax(rates);
  return text + ", " + from_to(human_number(slow), human_number(fast)) + " tokens/s" + (dry ? " modelled" : "") +
         ", so that the same step came out up to " + human_ratio(fast / slow) +
         " as fast in one lesson as in another.\n";
}

/// The step that most lessons have as their baseline, in one process. A lesson may begin with another one, such as
/// padded texts, and still have equal settings.
bool is_step_of(const Run& run, const Run& plain) {
  return run.c->ranks == 1 && std::abs(run.peak() / plain.peak() - 1) <= kSamePeak &&
         same_losses(run.baseline(), plain.baseline());
}
std::vector<Run> plain_of(const std::vector<Run>& runs) {
  std::vector<Run> most;
  for (const Run& plain : runs) {
    std::vector<Run> same;
    std::ranges::copy_if(runs, std::back_inserter(same), [&](const Run& run) { return is_step_of(run, plain); });
    if (same.size() > most.size()) most = std::move(same);
  }
  return most;
}

std::string stated_text(const Stated& common) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : common) parts.push_back(name + "=" + value);
  return markdown_cell(joined(parts));
}

}  // namespace

std::string one_gpt_markdown(const std::vector<Result>& of_machine, const Page& page) {
  std::vector<Run> runs = runs_of(of_machine);
  if (runs.empty()) return "Not yet measured.\n";
  const bool dry = runs.front().c->device == "dry";
  const Stated common = common_settings(runs);
  std::vector<std::string> changed;
  std::erase_if(runs, [&](const Run& run) {
    const std::string text = changed_text(*run.c, common);
    if (!text.empty()) changed.push_back(link_to(run, page) + " (" + markdown_cell(text) + ")");
    return !text.empty();
  });
  const std::vector<Run> plain = plain_of(runs);
  std::vector<TechniqueRow> rows;
  for (const Run& run : runs) add_rows(rows, run, !plain.empty() && is_step_of(run, plain.front()), page);
  std::string out = "The GPT: " + stated_text(common) + ".\n";
  if (!plain.empty()) out += "\n" + spread_text(plain, dry);
  out += table_of(rows, true, dry) + table_of(rows, false, dry);
  return out +
         (changed.empty() ? "" : "\nNot in the tables, since the lesson changes the case: " + joined(changed) + ".\n");
}

std::string one_gpt_part(const Page& page, const std::vector<std::string>& words) {
  if (words.size() != 1) throw std::invalid_argument("one_gpt needs 'measured' or a card that is not there");
  std::map<std::string, std::vector<Result>> by_machine;
  for (const Result& result : words[0] == "measured" ? page.published : page.dry) {
    if (words[0] == "measured" || dry_card(result) == words[0]) by_machine[result.machine.id].push_back(result);
  }
  if (words[0] != "measured") {
    if (by_machine.empty() && !page.dry.empty())
      throw std::invalid_argument("one_gpt: no result is of a " + words[0] + " that is not there");
    return by_machine.empty() ? "Not yet counted.\n" : one_gpt_markdown(by_machine.begin()->second, page);
  }
  // Those of results/REFERENCE first.
  std::vector<std::string> machines = reference_machines(page.root);
  for (const auto& [machine, results] : by_machine) {
    if (std::ranges::find(machines, machine) == machines.end()) machines.push_back(machine);
  }
  std::string out;
  for (const std::string& machine : machines) {
    if (by_machine.contains(machine))
      out += (out.empty() ? "" : "\n") + ("### " + machine + "\n\n") + one_gpt_markdown(by_machine.at(machine), page);
  }
  return out.empty() ? "Not yet measured.\n" : out;
}

}  // namespace tenfold
