#include "common/pages/book/dry_held.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "common/base/text.h"
#include "common/pages/book/dry_cases.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/markdown_table.h"
#include "common/pages/rows/verdict_words.h"

namespace tenfold {
namespace {

bool same_case(const CaseResult& measured, const CaseResult& dry) {
  return measured.name == dry.name && measured.size == dry.size && measured.ranks == dry.ranks &&
         std::ranges::all_of(measured.settings, [&](const auto& setting) {
           const auto other = dry.settings.find(setting.first);
           return other == dry.settings.end() || other->second == setting.second;
         });
}

struct DryCase {
  const Result* result = nullptr;
  const CaseResult* c = nullptr;
};

DryCase dry_case_of(const std::vector<Result>& dry, const std::string& card, const Result& measured,
                    const CaseResult& c) {
  for (const Result& result : dry) {
    if (result.lesson != measured.lesson || dry_card(result) != card) continue;
    for (const CaseResult& other : result.cases) {
      if (same_case(c, other)) return {&result, &other};
    }
  }
  return {};
}

std::string ratio_or_none(const std::optional<double>& ratio) { return ratio ? human_ratio(*ratio) : "-"; }

/// "9.64 ms, host 84.5 %".
std::string step_text(const VariantResult& variant) {
  if (!variant.split) return "-";
  const double step = step_seconds(*variant.split);
  return step > 0 ? human_seconds(step) + ", host " + human_percent(variant.split->host / step) : "-";
}

std::string measured_then_modelled(const std::string& measured, const std::string& modelled) {
  return measured == "-" && modelled == "-" ? "-" : measured + "; " + modelled;
}

}  // namespace

std::string held_part(const Page& page, const std::vector<std::string>& words) {
  if (words.size() != 2) throw std::invalid_argument("held: a machine of results, and a card that is not there");
  const std::string &machine = words[0], &card = words[1];
  if (!page.published.empty() &&
      std::ranges::none_of(page.published, [&](const Result& result) { return result.machine.id == machine; }))
    throw std::invalid_argument("held: no published result is of '" + machine + "'");
  if (!page.dry.empty() && std::ranges::find(page.dry, card, dry_card) == page.dry.end())
    throw std::invalid_argument("held: no result is of a " + card + " that is not there");
  std::vector<std::vector<std::string>> rows = {
      {"case", "technique", "speed", "memory", "step of the baseline", "step of the technique"}};
  for (const Result& result : page.published) {
    if (result.machine.id != machine) continue;
    const std::string link = lesson_link(page, result.lesson), stale = earlier(page, result);
    for (const CaseResult& c : result.cases) {
      const DryCase modelled_as = is_on_gpu(c) ? dry_case_of(page.dry, card, result, c) : DryCase();
      const CaseResult* const dry = modelled_as.c;
      if (!dry) continue;
      const std::string of_model = earlier(/*code=*/false, is_of_earlier_model(page, *modelled_as.result));
      for (const Verdict& verdict : c.verdicts) {
        const VariantResult *const own = variant_of(c, verdict.technique), *const of_card =
                                                                               variant_of(*dry, verdict.technique);
        const Verdict* const modelled = verdict_of(*dry, verdict.technique);
        if (!own || !of_card || !modelled || own->status != "ok" || of_card->status != "ok") continue;
        rows.push_back(
            {link + " " + markdown_cell(c.name) + stale + of_model, markdown_cell(verdict.technique),
             measured_then_modelled(number_text(verdict.speed),
                                    number_text(modelled->speed) + host_mark(*of_card, dry->variants.front())),
             measured_then_modelled(ratio_or_none(verdict.memory.ratio), ratio_or_none(modelled->memory.ratio)),
             measured_then_modelled(step_text(c.variants.front()), step_text(dry->variants.front())),
             measured_then_modelled(step_text(*own), step_text(*of_card))});
      }
    }
  }
  return rows.size() == 1 ? "Nothing to hold it against yet.\n" : markdown_table(rows);
}

}  // namespace tenfold
