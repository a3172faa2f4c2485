#include "common/pages/book/seals.h"

#include <algorithm>
#include <map>

#include "common/pages/book/dry_cases.h"
#include "common/pages/rows/case_words.h"
#include "common/pages/rows/markdown_table.h"
#include "common/result/seal.h"

namespace tenfold {

std::string seals_markdown(const std::filesystem::path& root, const std::vector<Result>& dry,
                           const std::set<std::string>& earlier_models) {
  std::map<std::string, std::vector<const Result*>> sets;
  for (const Result& result : dry) sets[result.machine.id].push_back(&result);
  std::vector<std::vector<std::string>> rows = {
      {"card", "results", "with modelled speeds", "by today's model", "last of", "commit", "seal"}};
  for (const auto& [id, results] : sets) {
    const Result& last =
        **std::ranges::max_element(results, {}, [](const Result* result) { return result->started_at; });
    const auto timed = std::ranges::count_if(results, [](const Result* result) { return has_times(*result); });
    const auto by_today = std::ranges::count_if(
        results, [&](const Result* result) { return has_times(*result) && !earlier_models.contains(result->commit); });
    rows.push_back({dry_card(last), std::to_string(results.size()), std::to_string(timed), std::to_string(by_today),
                    last.started_at.substr(0, 10), last.commit.substr(0, 10),
                    check_seal(root / "results" / id).substr(0, 16)});
  }
  return sets.empty() ? "No set is published yet.\n" : markdown_table_of_texts(rows);
}

}  // namespace tenfold
