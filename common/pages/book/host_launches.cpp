#include "common/pages/book/host_launches.h"

#include <algorithm>
#include <map>

#include "common/base/text.h"
#include "common/pages/rows/markdown_table.h"
#include "common/result/dry_counted.h"

namespace tenfold {

std::string host_launches_markdown(const std::vector<Result>& dry) {
  constexpr double kMostlyHost = 2.0 / 3;
  std::map<std::string, std::vector<double>> of_host;
  for (const Result& result : dry) {
    for (const CaseResult& c : result.cases) {
      if (c.variants.empty() || !c.variants.front().split) continue;
      const Split& split = *c.variants.front().split;
      const auto launches = c.variants.front().counted.find(kLaunches);
      if (launches == c.variants.front().counted.end() || launches->second <= 0) continue;
      if (split.host >= kMostlyHost * step_seconds(split))
        of_host[result.machine.cpu].push_back(split.host / launches->second);
    }
  }
  std::vector<std::string> parts;
  for (auto& [cpu, seconds] : of_host) {
    std::ranges::sort(seconds);  // a lesson's own work on the host is in it: the middle half tells of launches
    const double low = seconds[seconds.size() / 4], high = seconds[seconds.size() * 3 / 4];
    parts.push_back(human_seconds(low) + " to " + human_seconds(high) + " on " + markdown_cell(cpu) + " (" +
                    std::to_string(seconds.size()) + (seconds.size() == 1 ? " step)" : " steps)"));
  }
  if (parts.empty()) return "Not yet timed.\n";
  return "The host's part of a launch, of baselines whose step is mostly the host's, the middle half of them: " +
         joined(parts, "; ") + ".\n";
}

}  // namespace tenfold
