#include "common/pages/book/one_gpt.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "common/base/text.h"
#include "common/pages/book/dry_cases.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/markdown_table.h"
#include "common/pages/rows/references.h"
#include "common/pages/rows/rows.h"
#include "common/pages/rows/verdict_words.h"

namespace tenfold {
namespace {

using Stated = std::map<std::string, std::string>;

constexpr const char* kCase = "gpt";
constexpr size_t kNamedAtMost = 2;    // settings that a file does not state
constexpr double kSamePeak = 0.01;    // as verdicts call it: SMALLER and LARGER begin there
constexpr double kSameLosses = 1e-4;  // relative: sums in another order, of another number of threads
constexpr const char *kPrecision = "precision", *kBfloat16 = "bfloat16";  // as common/models/precision.h has them
constexpr const char* kIn16Bits = ", 16 bits";  // behind a technique's name where its lesson has it in both precisions
constexpr const char* kAdamW = "adamw_learning_rate";  // a setting of the lessons that train with AdamW
constexpr const char* kAutocast = "bf16 autocast";     // the technique that makes the plain step one in 16 bits

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

bool in_16_bits(const CaseResult& c) {
  const auto precision = c.settings.find(kPrecision);
  return precision != c.settings.end() && to_string(precision->second) == kBfloat16;
}

/// What a case says of its work. The ranks are not among it: that is what a technique on several is about; nor is the
/// preset on a GPU that is not there, where it says only whether the step was timed.
Stated stated_of(const CaseResult& c) {
  Stated stated = {
      {"size", c.size}, {"dtype", c.dtype}, {"threads", std::to_string(c.threads)}, {"seed", std::to_string(c.seed)}};
  if (c.device != "dry") stated["preset"] = c.preset;
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

/// A technique's row with where it comes from.
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
  if (run.c->preset == "check") return "not timed";
  if (row.at(Column::agreement).text == "-" && row.variant->status != "invalid") return "-";
  return ratio_text(row.verdict->speed) + host_mark(*row.variant, run.baseline());
}

/// Whether the row is what a lesson advises or warns of, and was run. Traps and what no such machine can run are on the
/// lessons' pages.
bool is_shown(const VariantRow& row) {
  const auto& expected = row.variant->expected;
  return row.verdict != nullptr && row.variant->status != "skipped" &&
         (!expected || expected->kind == "technique" || expected->kind == "mistake");
}

/// "[30](...) accumulate (a mistake) (earlier code)"; `stale` is what earlier() says.
std::string name_text(const Run& run, const VariantRow& row, const Page& page, const std::string& stale) {
  const auto& expected = row.variant->expected;
  std::string ranks = run.c->ranks > 1 ? ", " + std::to_string(run.c->ranks) + " ranks" : "";
  const auto devices = row.variant->environment.find("devices");  // of one process
  if (devices != row.variant->environment.end() && devices->second != "1") ranks += ", " + devices->second + " devices";
  const std::string mistake = expected && expected->kind == "mistake" ? " (a mistake)" : "";
  return lesson_link(page, run.result->lesson) + " " + markdown_cell(row.name + ranks + mistake) + stale;
}

std::string agreement_cell(const VariantRow& row) {
  const std::string text = row.at(row.variant->status == "invalid" ? Column::expected : Column::agreement).text;
  return markdown_cell(text == "-" ? "agreement not compared" : text);
}

/// "6.40 GiB, SMALLER 0.328x".
std::string peak_cell(const VariantRow& row) {
  const std::string memory = row.at(Column::memory).text;
  return markdown_cell(row.at(Column::peak).text + (memory == "-" ? "" : ", " + memory));
}

void add_rows(std::vector<TechniqueRow>& rows, const Run& run, bool plain, const Page& page) {
  const std::string stale = earlier(page, *run.result);
  const CaseRows of_case = rows_of(*run.c);
  for (const VariantRow& row : of_case.rows) {
    if (!is_shown(row)) continue;
    rows.push_back({.lesson = run.result->lesson,
                    .peak = static_cast<double>(row.variant->peak().value_or(0)),
                    .plain = plain,
                    .cells = {name_text(run, row, page, stale) + (plain ? "" : against_text(run.baseline())) + "<br>" +
                                  agreement_cell(row),
                              peak_cell(row),
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

/// The runs that state what most do; of the others "[31](...) (batch=2)" in `changed`.
std::vector<Run> unchanged_of(const std::vector<Run>& runs, const Stated& common, const Page& page,
                              std::vector<std::string>& changed) {
  std::vector<Run> unchanged;
  for (const Run& run : runs) {
    const std::string text = changed_text(*run.c, common);
    if (text.empty())
      unchanged.push_back(run);
    else
      changed.push_back(lesson_link(page, run.result->lesson) + " (" + markdown_cell(text) + ")");
  }
  return unchanged;
}

/// The row of the same technique in the lesson's case that differs in the precision alone; "-" where there is none.
std::string in_32_bits_text(const Run& run, const std::string& technique) {
  std::string name = technique;
  if (name.ends_with(kIn16Bits)) name.resize(name.size() - std::string(kIn16Bits).size());
  for (const CaseResult& c : run.result->cases) {
    auto own = run.c->settings, others = c.settings;
    own.erase(kPrecision), others.erase(kPrecision);
    if (in_16_bits(c) || c.metric || c.verdicts.empty() || own != others || c.ranks != run.c->ranks) continue;
    const Run other{run.result, &c};
    const CaseRows of_case = rows_of(c);
    const auto row = std::ranges::find(of_case.rows, name, &VariantRow::name);
    if (row == of_case.rows.end() || !is_shown(*row)) continue;
    return markdown_cell(memory_text(row->verdict->memory) + ", " + modelled_text(other, *row));
  }
  return "-";
}

/// The plain step with autocast, where a lesson has it among its techniques: in 16 bits that is what all compare with.
const VariantResult* autocast_of(const std::vector<Run>& plain) {
  for (const Run& run : plain) {
    if (const VariantResult* const variant = variant_of(*run.c, kAutocast)) return variant;
  }
  return nullptr;
}

/// "the plain step in 16 bits", or "*on the device*, 30.3 GiB: width=4096, AdamW".
std::string step_in_16_bits(const Run& run, const Stated& common, const VariantResult* autocast) {
  std::string changed = changed_text(*run.c, common);
  if (run.c->settings.contains(kAdamW)) changed += std::string(changed.empty() ? "" : ", ") + "AdamW";
  const auto& peaks = autocast ? autocast->peak_bytes : run.baseline().peak_bytes;
  const auto own = run.baseline().peak_bytes.find("requested"), plain = peaks.find("requested");
  const bool same = autocast && own != run.baseline().peak_bytes.end() && plain != peaks.end() &&
                    std::abs(static_cast<double>(own->second) / static_cast<double>(plain->second) - 1) <= kSamePeak;
  if (changed.empty() && run.c->ranks == 1 && same) return "the plain step in 16 bits";
  const std::string ranks = run.c->ranks > 1 ? std::to_string(run.c->ranks) + " ranks" : "";
  const std::string differs = ranks + (ranks.empty() || changed.empty() ? "" : ", ") + changed;
  return "*" + markdown_cell(run.baseline().name) + "*, " + markdown_cell(peak_text(run.baseline())) +
         (differs.empty() ? "" : ": " + markdown_cell(differs));
}

std::string in_16_bits_markdown(const std::vector<Result>& of_machine, const Page& page) {
  const std::vector<Run> runs = runs_of(of_machine);
  const Stated common = common_settings(runs);
  std::vector<std::string> changed;
  const std::vector<Run> unchanged = unchanged_of(runs, common, page, changed), plain = plain_of(unchanged);
  const VariantResult* const autocast = autocast_of(plain);
  std::string out;
  if (autocast)
    out = "The plain step in 16 bits: peak " + markdown_cell(peak_text(*autocast)) + ", " +
          human_number(items_per_second(*autocast)) + " tokens/s modelled.\n\n";
  std::set<std::string> has_case;
  std::vector<std::vector<std::string>> cells = {
      {"technique, agreement", "against", "peak and memory, counted", "speed, modelled", "the same in 32 bits"}};
  for (const Result& result : of_machine) {
    for (const CaseResult& c : result.cases) {
      if (!in_16_bits(c) || c.metric || c.verdicts.empty()) continue;
      const Run run{&result, &c};
      const std::string stale = earlier(page, result);
      has_case.insert(result.lesson);
      const CaseRows of_case = rows_of(c);
      for (const VariantRow& row : of_case.rows) {
        if (!is_shown(row)) continue;
        cells.push_back({name_text(run, row, page, stale) + "<br>" + agreement_cell(row),
                         step_in_16_bits(run, common, autocast), peak_cell(row), markdown_cell(modelled_text(run, row)),
                         in_32_bits_text(run, row.name)});
      }
    }
  }
  if (cells.size() == 1) return "Not yet measured.\n";
  std::vector<std::string> missing;
  for (const Run& run : unchanged) {
    if (!has_case.contains(run.result->lesson) && !variant_of(*run.c, kAutocast))
      missing.push_back(lesson_link(page, run.result->lesson));
  }
  return out + markdown_table(cells) +
         (missing.empty() ? "" : "\nIn the tables of 32 bits, and not measured in 16: " + joined(missing) + ".\n");
}

}  // namespace

std::string one_gpt_markdown(const std::vector<Result>& of_machine, const Page& page) {
  std::vector<Run> runs = runs_of(of_machine);
  if (runs.empty()) {
    const size_t lessons = of_machine.size();
    return lessons == 1 ? "One lesson ran there, without this case.\n"
                        : std::to_string(lessons) + " lessons ran there, none with this case.\n";
  }
  const bool dry = runs.front().c->device == "dry";
  const Stated common = common_settings(runs);
  std::vector<std::string> changed;
  runs = unchanged_of(runs, common, page, changed);
  const std::vector<Run> plain = plain_of(runs);
  std::vector<TechniqueRow> rows;
  for (const Run& run : runs) add_rows(rows, run, !plain.empty() && is_step_of(run, plain.front()), page);
  std::string out = "The GPT: " + stated_text(common) + ".\n";
  if (!plain.empty()) out += "\n" + spread_text(plain, dry);
  out += table_of(rows, true, dry) + table_of(rows, false, dry);
  std::vector<std::string> without;
  for (const Run& run : runs) {
    if (std::ranges::none_of(rows, [&](const TechniqueRow& row) { return row.lesson == run.result->lesson; }))
      without.push_back(lesson_link(page, run.result->lesson));
  }
  return out +
         (changed.empty() ? "" : "\nNot in the tables, since the lesson changes the case: " + joined(changed) + ".\n") +
         (without.empty() ? ""
                          : "\nNot in the tables, since none of its techniques ran there: " + joined(without) + ".\n");
}

std::string one_gpt_part(const Page& page, const std::vector<std::string>& words) {
  const bool in_16_bits = words.size() == 2 && words[0] != "measured" && words[1] == "16_bits";
  if (words.size() != 1 && !in_16_bits)
    throw std::invalid_argument("one_gpt needs 'measured' or a card that is not there, and behind a card '16_bits'");
  std::map<std::string, std::vector<Result>> by_machine;
  for (const Result& result : words[0] == "measured" ? page.published : page.dry) {
    if (words[0] == "measured" || dry_card(result) == words[0]) by_machine[result.machine.id].push_back(result);
  }
  if (words[0] != "measured") {
    if (by_machine.empty() && !page.dry.empty())
      throw std::invalid_argument("one_gpt: no result is of a " + words[0] + " that is not there");
    if (by_machine.empty()) return "Not yet counted.\n";
    const std::vector<Result>& of_card = by_machine.begin()->second;
    return in_16_bits ? in_16_bits_markdown(of_card, page) : one_gpt_markdown(of_card, page);
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
