#include "common/pages/dry_tables.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "common/base/text.h"
#include "common/pages/markdown.h"
#include "common/pages/table.h"
#include "common/result/judge.h"
#include "common/result/statistics.h"

namespace tenfold {
namespace {

using Row = std::vector<std::string>;

/// Cards with less memory first.
std::vector<const Result*> by_card(const std::vector<Result>& dry, const std::string& lesson) {
  std::vector<const Result*> of_lesson;
  for (const Result& result : dry) {
    if (result.lesson == lesson && !result.machine.gpus.empty()) of_lesson.push_back(&result);
  }
  std::ranges::sort(of_lesson, {}, [](const Result* result) { return result->machine.gpus.front().memory_bytes; });
  return of_lesson;
}

std::string card_of(const Result& result) { return result.machine.gpus.front().name; }

/// Measured by the allocator over predicted, less 1; nothing where either is missing.
std::optional<double> error_of(const VariantResult& variant) {
  const auto peak = variant.peak();
  if (!peak || !variant.predicted.peak_bytes || *variant.predicted.peak_bytes <= 0) return std::nullopt;
  return static_cast<double>(*peak) / static_cast<double>(*variant.predicted.peak_bytes) - 1;
}

const CaseResult* case_of(const Result& result, const std::string& name) {
  const auto same = std::ranges::find(result.cases, name, &CaseResult::name);
  return same == result.cases.end() ? nullptr : &*same;
}

std::string peak_cell(const CaseResult& c, const std::string& name) {
  const VariantResult* const variant = variant_of(c, name);
  if (variant == nullptr) return "";
  if (variant->status == "skipped") return "skipped";
  if (variant->status == "invalid") return variant->failure == "out_of_memory" ? "out of memory" : "-";
  const Verdict* const verdict = verdict_of(c, name);
  std::string text = peak_text(*variant);
  if (c.budget && variant->budget_value)
    return text + ", " + c.budget->setting + "=" + to_string(*variant->budget_value);
  if (verdict != nullptr && verdict->memory.ratio) text += ", " + memory_text(verdict->memory);
  return text;
}

std::string count_cell(const VariantResult& variant, const char* name, bool bytes) {
  const auto count = variant.counted.find(name);
  if (count == variant.counted.end()) return "";
  return bytes ? human_bytes(count->second) : human_number(count->second);
}

std::string worst_error(const std::vector<const Result*>& cards, const std::string& case_name,
                        const std::string& name) {
  std::optional<double> worst;
  for (const Result* const card : cards) {
    const CaseResult* const c = case_of(*card, case_name);
    const VariantResult* const variant = c == nullptr ? nullptr : variant_of(*c, name);
    const auto error = variant == nullptr ? std::nullopt : error_of(*variant);
    if (error && (!worst || std::abs(*error) > std::abs(*worst))) worst = error;
  }
  return worst ? human_percent(*worst, /*sign=*/true) : "";
}

std::string agreement_cell(const CaseResult& c, const VariantResult& variant) {
  const Verdict* const verdict = verdict_of(c, variant.name);
  if (verdict == nullptr) return "baseline";
  if (variant.status == "invalid") return expectation_text(variant, *verdict);
  const std::string text = agreement_text(*verdict);
  return text == "-" ? "" : text;
}

std::string case_table(const std::vector<const Result*>& cards, const CaseResult& c) {
  std::vector<Row> rows = {{c.name}};
  for (const Result* const card : cards) {
    const CaseResult* const same = case_of(*card, c.name);
    rows[0].push_back(card_of(*card) + (same == nullptr ? "" : ", " + same->size));
  }
  rows[0].insert(rows[0].end(), {"predicted peak", "launches", "waits", "to the card", "agreement"});
  for (const VariantResult& variant : c.variants) {
    Row row = {variant.name};
    for (const Result* const card : cards) {
      const CaseResult* const same = case_of(*card, c.name);
      row.push_back(same == nullptr ? "" : peak_cell(*same, variant.name));
    }
    row.insert(row.end(), {worst_error(cards, c.name, variant.name), count_cell(variant, "launches", false),
                           count_cell(variant, "waits of the host", false),
                           count_cell(variant, "bytes to the device", true), agreement_cell(c, variant)});
    rows.push_back(std::move(row));
  }
  for (Row& row : rows) {
    for (std::string& cell : row) cell = markdown_cell(cell);
  }
  return markdown_table(rows);
}

/// The row that stands for the lesson, on each card: "0.36 GiB, SMALLER 0.33x on Tesla T4".
std::string headline_text(const std::vector<const Result*>& cards) {
  const auto& headline = cards.back()->headline;
  if (!headline) return "";
  std::vector<std::string> parts;
  for (const Result* const card : cards) {
    const CaseResult* const c = case_of(*card, headline->case_name);
    const std::string cell = c == nullptr ? "" : peak_cell(*c, headline->technique);
    if (!cell.empty() && cell != "-" && cell != "skipped")
      parts.push_back(cell + " on " + card_of(*card) + " (" + c->size + ")");
  }
  if (parts.empty()) return "";
  return " *" + markdown_cell(headline->technique) + "* in *" + markdown_cell(headline->case_name) +
         "*: " + markdown_cell(joined(parts, "; ")) + ".";
}

/// What is counted over all lessons of one card.
struct Totals {
  std::vector<double> errors;
  double worst = 0;
  std::string where = "-";
  int agree = 0, agreed_on = 0, caught = 0, traps = 0;
  std::set<std::string> lessons;
};

std::string place(const Result& result, const CaseResult& c, const VariantResult& variant) {
  return number_of_name(result.lesson) + " " + variant.name + " (" + c.name + ")";
}

void add(Totals& totals, const Result& result, const CaseResult& c) {
  for (const VariantResult& variant : c.variants) {
    if (const auto error = error_of(variant)) {
      totals.errors.push_back(std::abs(*error));
      if (std::abs(*error) > std::abs(totals.worst)) totals.worst = *error, totals.where = place(result, c, variant);
    }
    const Verdict* const verdict = verdict_of(c, variant.name);
    if (verdict == nullptr) continue;
    if (verdict->as_expected.caught) {
      ++totals.traps;
      totals.caught += *verdict->as_expected.caught ? 1 : 0;
    } else if (verdict->agreement) {
      ++totals.agreed_on;
      totals.agree += verdict->agreement->pass ? 1 : 0;
    }
  }
}

std::string of_all(int count, int all) { return std::to_string(count) + " of " + std::to_string(all); }

}  // namespace

std::string dry_markdown(const std::vector<Result>& dry, const std::string& lesson, const std::string& hash_now,
                         const std::string& docs) {
  const std::vector<const Result*> cards = by_card(dry, lesson);
  if (cards.empty()) return "";
  const Result& last = *cards.back();
  const bool stale = std::ranges::any_of(cards, [&](const Result* card) { return card->code_hash != hash_now; });
  std::string out =
      "**On [dry GPUs](" + docs + "/dry_gpu.md)**" + (stale ? " (*stale: the lesson's code has changed since*)" : "") +
      ", cards that were not there: memory and agreement, no times." + headline_text(cards) +
      "\n\n<details><summary>Every case on every card</summary>\n\nPeaks are what LibTorch's own allocator "
      "counted; launches, waits of the host and bytes copied to the card are those of a step on the last "
      "card; agreement was computed by the CPU at size cpu. The predicted peak's error is the largest of "
      "the cards'. " +
      last.started_at.substr(0, 10) + ", commit " + last.commit.substr(0, 10) + ".\n";
  for (const CaseResult& c : last.cases) {
    if (c.kind == "comparison") out += "\n" + case_table(cards, c);
    if (c.kind == "survey") out += "\nOn " + card_of(last) + ": " + survey_markdown(c);
  }
  return out + "\n</details>\n";
}

std::string dry_peaks_markdown(const std::vector<Result>& dry) {
  if (dry.empty()) return "Not yet counted.\n";
  std::map<std::pair<int64_t, std::string>, Totals> by_memory;
  std::map<std::string, std::vector<std::string>> off;  // by what is off, the cards
  for (const Result& result : dry) {
    if (result.machine.gpus.empty()) continue;
    Totals& totals = by_memory[{result.machine.gpus.front().memory_bytes, card_of(result)}];
    totals.lessons.insert(result.lesson);
    for (const CaseResult& c : result.cases) {
      add(totals, result, c);
      for (const VariantResult& variant : c.variants) {
        const auto error = error_of(variant);
        if (error && std::abs(*error) > kShownOff)
          off[place(result, c, variant)].push_back(human_percent(*error, true) + " on " + card_of(result));
      }
    }
  }
  std::vector<Row> rows = {
      {"card", "lessons", "predicted peaks", "half within", "worst", "where", "agree", "traps caught"}};
  for (auto& [card, totals] : by_memory) {
    const auto count = totals.errors.size();
    rows.push_back({card.second, std::to_string(totals.lessons.size()), std::to_string(count),
                    count == 0 ? "-" : human_percent(median(totals.errors)), human_percent(totals.worst, true),
                    totals.where, of_all(totals.agree, totals.agreed_on), of_all(totals.caught, totals.traps)});
  }
  for (Row& row : rows) {
    for (std::string& cell : row) cell = markdown_cell(cell);
  }
  std::string out = markdown_table(rows);
  if (!off.empty()) out += "\nFurther off than " + human_percent(kShownOff) + ":\n\n";
  for (const auto& [what, cards] : off) out += "- " + markdown_cell(what) + ": " + joined(cards) + "\n";
  return out;
}

}  // namespace tenfold
