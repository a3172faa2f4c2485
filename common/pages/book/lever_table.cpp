#include "common/pages/book/lever_table.h"

#include "common/base/text.h"
#include "common/pages/rows/markdown_table.h"
#include "common/result/lever_gains.h"

namespace tenfold {
namespace {

std::string cell(const std::optional<Interval>& gain) {
  return gain ? human_ratio(gain->middle, gain->low, gain->high) : "-";
}

const CaseResult* case_named(const Result& result, const std::string& name) {
  for (const CaseResult& c : result.cases) {
    if (c.name == name) return &c;
  }
  return nullptr;
}

}  // namespace

std::string levers_markdown(const Result* reference, const std::string& case_name) {
  const CaseResult* stacks = reference ? case_named(*reference, case_name) : nullptr;
  if (!stacks) return "Not yet measured.\n";
  std::vector<std::vector<std::string>> table = {{"lever", "its own gain", "so far", "on top of all others"}};
  std::string reasons;
  for (const LeverGain& gain : lever_gains(*stacks, training_of(*reference, case_name))) {
    table.push_back({markdown_cell(gain.lever), cell(gain.own), cell(gain.so_far), cell(gain.in_all)});
    if (!gain.reason.empty()) reasons += "\n*" + markdown_cell(gain.lever) + "*: " + markdown_cell(gain.reason) + ".\n";
  }
  return markdown_table(table) + reasons;
}

}  // namespace tenfold
