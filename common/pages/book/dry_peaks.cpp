#include "common/pages/book/dry_peaks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "common/base/text.h"
#include "common/pages/book/dry_cases.h"
#include "common/pages/rows/markdown_table.h"
#include "common/result/judge.h"
#include "common/result/statistics.h"

namespace tenfold {
namespace {

using Row = std::vector<std::string>;

/// What is counted over all lessons of one card.
struct Totals {
  std::string name;
  std::vector<double> errors;
  double largest = 0;
  std::string where = "-";
  int agree = 0, compared = 0, caught = 0, traps = 0;
  std::set<std::string> lessons;
};

std::string place(const Result& result, const CaseResult& c, const VariantResult& variant) {
  return number_of_name(result.lesson) + " " + variant.name + " (" + c.name + ")";
}

void add(Totals& totals, const Result& result, const CaseResult& c) {
  for (const VariantResult& variant : c.variants) {
    if (const auto error = peak_error(variant)) {
      totals.errors.push_back(std::abs(*error));
      if (std::abs(*error) > std::abs(totals.largest))
        totals.largest = *error, totals.where = place(result, c, variant);
    }
    const Verdict* const verdict = verdict_of(c, variant.name);
    if (verdict == nullptr) continue;
    const bool refuted = verdict->agreement && !verdict->agreement->is_open() && !verdict->agreement->pass;
    if (verdict->as_expected.caught || (variant.expected && variant.expected->kind == "trap")) {
      // Whether it was caught was not decided where the variant was skipped at the card's size; at size cpu it was.
      ++totals.traps;
      totals.caught += verdict->as_expected.caught.value_or(refuted) ? 1 : 0;
    } else if (verdict->agreement && !verdict->agreement->is_open()) {
      ++totals.compared;
      totals.agree += verdict->agreement->pass ? 1 : 0;
    }
  }
}

std::string of_all(int count, int all) { return std::to_string(count) + " of " + std::to_string(all); }

/// For each variant whose prediction is further off than kShownOff, the errors with the cards that have them.
using Off = std::map<std::string, std::vector<std::pair<std::string, std::vector<std::string>>>>;

void add(Off& off, const Result& result, const CaseResult& c) {
  for (const VariantResult& variant : c.variants) {
    const auto error = peak_error(variant);
    if (!error || std::abs(*error) <= kShownOff) continue;
    auto& errors = off[place(result, c, variant)];
    const std::string text = human_percent(*error, /*sign=*/true);
    auto same = std::ranges::find_if(errors, [&](const auto& one) { return one.first == text; });
    if (same == errors.end()) same = errors.insert(errors.end(), {text, {}});
    same->second.push_back(dry_card(result));
  }
}

std::string off_markdown(const Off& off) {
  if (off.empty()) return "";
  std::string out = "\nPredictions that are off by more than " + human_percent(kShownOff) + ":\n\n";
  for (const auto& [what, errors] : off) {
    std::vector<std::string> parts;
    for (const auto& [error, cards] : errors) parts.push_back(error + " on " + joined(cards));
    out += "- " + markdown_cell(what) + ": " + joined(parts, "; ") + "\n";
  }
  return out;
}

}  // namespace

std::string dry_peaks_markdown(const std::vector<Result>& dry) {
  if (dry.empty()) return "Not yet counted.\n";
  std::map<std::pair<int64_t, std::string>, Totals> by_memory;
  Off off;
  for (const Result& result : dry) {
    if (result.machine.gpus.empty()) continue;
    const Gpu& gpu = result.machine.gpus.front();
    Totals& totals = by_memory[{gpu.memory_bytes, gpu.name}];
    totals.name = dry_card(result);
    totals.lessons.insert(result.lesson);
    for (const CaseResult& c : result.cases) {
      add(totals, result, c);
      add(off, result, c);
    }
  }
  std::vector<Row> rows = {{"card", "its full name", "lessons run", "peaks predicted", "median error", "largest error",
                            "largest error in", "variants that agree", "traps caught"}};
  for (auto& [card, totals] : by_memory) {
    const auto count = totals.errors.size();
    rows.push_back({totals.name, card.second, std::to_string(totals.lessons.size()), std::to_string(count),
                    count == 0 ? "-" : human_percent(median(totals.errors)), human_percent(totals.largest, true),
                    totals.where, of_all(totals.agree, totals.compared), of_all(totals.caught, totals.traps)});
  }
  return markdown_table_of_texts(rows) + off_markdown(off);
}

}  // namespace tenfold
