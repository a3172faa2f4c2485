#include "common/base/rank_numbers.h"

#include <algorithm>
#include <sstream>

#include "common/base/text.h"

namespace tenfold {

std::vector<int> ranks_given(const GivenFlags& given) {
  std::vector<int> numbers;
  for (const int64_t number : numbers_of(given, "--ranks")) numbers.push_back(static_cast<int>(number));
  return numbers;
}

size_t visible_among(const std::string& list) {
  std::istringstream entries(list);
  size_t count = 0;
  // CUDA reads the list up to an entry that is no device.
  for (std::string entry; std::getline(entries, entry, ',') && !entry.empty() && entry.front() != '-';) ++count;
  return count;
}

int ranks_unless_given(const RankNumbers& part, size_t gpus) {
  const int most = gpus < 2 ? 2 : static_cast<int>(std::min<size_t>(gpus, kMostRanks));
  return std::max(most / part.unit, 1) * part.unit;
}

void check_ranks(const std::vector<int>& numbers, const std::vector<NamedRankNumbers>& chosen) {
  std::vector<std::string> names;
  bool any = false;
  for (const auto& [part, ranks] : chosen) {
    names.push_back("'" + part + "'");
    if (!ranks.as_many) continue;
    any = true;
    const auto refused = std::ranges::find_if_not(numbers, [&](int number) { return ranks.takes(number); });
    if (refused != numbers.end())
      throw UsageError("--ranks " + std::to_string(*refused) + ": '" + part + "' needs a multiple of " +
                       std::to_string(ranks.unit));
  }
  if (!numbers.empty() && !any)
    throw UsageError("--ranks: none of " + joined(names) + " runs on as many ranks as there are; leave the flag out");
}

}  // namespace tenfold
