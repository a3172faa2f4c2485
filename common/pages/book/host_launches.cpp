#include "common/pages/book/host_launches.h"

#include <map>
#include <utility>

#include "common/base/text.h"
#include "common/pages/book/chapters.h"
#include "common/pages/rows/markdown_table.h"
#include "common/result/dry_counted.h"
#include "common/result/statistics.h"

namespace tenfold {

std::string host_launches_markdown(const std::vector<Result>& dry) {
  constexpr double kShare = 1.0 / 3;
  std::map<std::string, std::vector<double>> of_host;
  for (const Result& result : dry) {
    if (chapter_of(result.lesson) == "Data") continue;
    for (const CaseResult& c : result.cases) {
      if (c.variants.empty() || !c.variants.front().split) continue;
      const Split& split = *c.variants.front().split;
      const auto launches = c.variants.front().counted.find(kLaunches);
      if (launches == c.variants.front().counted.end() || launches->second <= 0) continue;
      if (split.host >= kShare * step_seconds(split))
        of_host[result.machine.cpu].push_back(split.host / launches->second);
    }
  }
  std::vector<std::string> parts;
  for (auto& [cpu, seconds] : of_host) {
    const std::string steps = std::to_string(seconds.size()) + (seconds.size() == 1 ? " step" : " steps");
    parts.push_back(human_seconds(median(std::move(seconds))) + " on " + markdown_cell(cpu) + " (" + steps + ")");
  }
  if (parts.empty()) return "Not yet timed.\n";
  return "The host's part of a launch, the median of the baselines of whose step it is a third or more, without the "
         "lessons on data, which load and decode in a step: " +
         joined(parts, "; ") + ".\n";
}

}  // namespace tenfold
