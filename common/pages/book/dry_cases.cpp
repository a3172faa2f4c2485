#include "common/pages/book/dry_cases.h"

#include <algorithm>
#include <ranges>

#include "common/base/text.h"
#include "common/result/dry_counted.h"

namespace tenfold {
namespace {

bool is_the_same(const CaseResult& a, const CaseResult& b) {
  const auto same_variant = [](const VariantResult& left, const VariantResult& right) {
    return left.name == right.name && left.status == right.status && left.peak_bytes == right.peak_bytes &&
           dry_count(left, kLaunches) == dry_count(right, kLaunches);
  };
  return a.kind == b.kind && a.size == b.size && a.ranks == b.ranks && a.settings == b.settings && !a.budget &&
         !b.budget && std::ranges::equal(a.variants, b.variants, same_variant) &&
         std::ranges::any_of(a.variants, [](const VariantResult& variant) { return variant.peak().has_value(); });
}

}  // namespace

Cards by_card(const std::vector<Result>& dry, const std::string& lesson) {
  Cards of_lesson;
  for (const Result& result : dry) {
    if (result.lesson == lesson && !result.machine.gpus.empty()) of_lesson.push_back(&result);
  }
  std::ranges::sort(of_lesson, {}, [](const Result* result) { return result->machine.gpus.front().memory_bytes; });
  return of_lesson;
}

std::string dry_card(const Result& result) {
  std::string name = result.machine.id.substr(std::string(kDryMachine).size());
  for (char& letter : name) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return name;
}

std::string names_of(const Cards& cards, const std::string& separator) {
  std::vector<std::string> names;
  for (const Result* const card : cards) names.push_back(dry_card(*card));
  return joined(names, separator);
}

const CaseResult* case_of(const Result& result, const std::string& name) {
  const auto same = std::ranges::find(result.cases, name, &CaseResult::name);
  return same == result.cases.end() ? nullptr : &*same;
}

std::vector<std::string> case_names(const Cards& cards) {
  std::vector<std::string> names;
  for (const Result* const card : cards | std::views::reverse) {
    for (const CaseResult& c : card->cases) {
      if (std::ranges::find(names, c.name) == names.end()) names.push_back(c.name);
    }
  }
  return names;
}

std::string earlier_twin(const Cards& cards, const std::vector<std::string>& names, const std::string& name) {
  for (const std::string& earlier : names) {
    if (earlier == name) break;
    const bool twins = std::ranges::all_of(cards, [&](const Result* card) {
      const CaseResult *const a = case_of(*card, earlier), *const b = case_of(*card, name);
      return a != nullptr && b != nullptr && is_the_same(*a, *b);
    });
    if (twins) return earlier;
  }
  return "";
}

std::optional<Headline> counted_headline(const Result& card) {
  const auto is_counted = [](const CaseResult& c, const std::string& technique) {
    const VariantResult* const variant = variant_of(c, technique);
    const Verdict* const verdict = verdict_of(c, technique);
    return variant != nullptr && variant->peak() && verdict != nullptr && verdict->memory.ratio;
  };
  const auto first_of = [&](const CaseResult& c) -> std::optional<Headline> {
    for (const VariantResult& variant : c.variants) {
      const bool advised = !variant.expected || variant.expected->kind == "technique";
      if (advised && is_counted(c, variant.name)) return Headline{c.name, variant.name};
    }
    return std::nullopt;
  };
  const CaseResult* const own = card.headline ? case_of(card, card.headline->case_name) : nullptr;
  if (own != nullptr && is_counted(*own, card.headline->technique)) return card.headline;
  if (const auto beside = own == nullptr ? std::nullopt : first_of(*own)) return beside;
  for (const CaseResult& c : card.cases) {
    if (const auto first = first_of(c)) return first;
  }
  return card.headline;
}

}  // namespace tenfold
