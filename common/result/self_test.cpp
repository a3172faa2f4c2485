#include "common/result/self_test.h"

#include <algorithm>
#include <cmath>

#include "common/result/judge.h"
#include "common/result/rate_ratio.h"

namespace tenfold {
namespace {

Blocks slowed(Blocks blocks, double times) {
  for (auto* column : {&blocks.wall_ns, &blocks.processor_ns, &blocks.device_ns}) {
    for (int64_t& ns : *column) ns = std::max<int64_t>(1, std::llround(times * static_cast<double>(ns)));
  }
  return blocks;
}

SelfTestRow row_of(const Result& result, const CaseResult& c) {
  const std::vector<Blocks>& equal = c.variants.front().blocks;
  const auto label = [&](const Blocks& second) { return speed_label(rate_ratio(equal[0], second, c.clock)); };
  return {.lesson = result.lesson,
          .case_name = c.name,
          .rounds = rounds_of(c),
          .clock = c.clock,
          .equal = rate_ratio(equal[0], equal[1], c.clock),
          .identical = label(equal[1]),
          .found = label(slowed(equal[1], 1 + kPlanted)) == Speed::slower &&
                   label(slowed(equal[1], 1 / (1 + kPlanted))) == Speed::faster};
}

int count(const std::vector<SelfTestRow>& rows, auto&& is) {
  return static_cast<int>(std::count_if(rows.begin(), rows.end(), is));
}

}  // namespace

int SelfTest::same() const {
  return count(rows, [](const SelfTestRow& row) { return row.identical == Speed::same; });
}
int SelfTest::told_apart() const {
  return count(rows,
               [](const SelfTestRow& row) { return row.identical == Speed::faster || row.identical == Speed::slower; });
}
int SelfTest::found() const {
  return count(rows, [](const SelfTestRow& row) { return row.found; });
}

std::string SelfTest::objection() const {
  if (rows.empty())
    return "no case was timed for " + std::to_string(kFewestRounds) +
           " rounds, so nothing shows how well this run judges";
  if (told_apart() > 1 + cases() / 10)
    return "identical code was told apart in " + std::to_string(told_apart()) + " of " + std::to_string(cases()) +
           " cases";
  if (2 * found() < cases())
    return "code that is 5 % slower would have been found in " + std::to_string(found()) + " of " +
           std::to_string(cases()) + " cases only";
  return "";
}

SelfTest self_test(const std::vector<Result>& results) {
  SelfTest test;
  for (const Result& result : results) {
    for (const CaseResult& c : result.cases) {
      if (c.kind != "comparison" || rounds_of(c) < kFewestRounds) continue;
      if (ranks_took_turns(c, result.machine.cores)) continue;
      test.rows.push_back(row_of(result, c));
    }
  }
  return test;
}

}  // namespace tenfold
