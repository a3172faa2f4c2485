#include "common/pages/rows/verdict_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "common/pages/rows/rows.h"

namespace tenfold {

nlohmann::ordered_json verdicts_json(const std::vector<Result>& results) {
  nlohmann::ordered_json verdicts = nlohmann::ordered_json::array();
  for (const VerdictRow& of : verdict_rows(results)) {
    const Verdict& verdict = *of.row.verdict;
    nlohmann::ordered_json json = {{"lesson", of.result->lesson},
                                   {"case", of.c->name},
                                   {"technique", verdict.technique},
                                   {"speed", verdict.speed.label},
                                   {"memory", verdict.memory.label}};
    if (verdict.speed.ratio) json["speed_ratio"] = *verdict.speed.ratio;
    if (verdict.speed.low && verdict.speed.high) json["speed_interval"] = {*verdict.speed.low, *verdict.speed.high};
    if (verdict.memory.ratio) json["memory_ratio"] = *verdict.memory.ratio;
    if (verdict.quality) json["quality"] = verdict.quality->label;
    if (verdict.agreement && !verdict.agreement->is_open()) json["agrees"] = verdict.agreement->pass;
    for (const auto& [name, met] : {std::pair("speed", verdict.as_expected.speed),
                                    {"memory", verdict.as_expected.memory},
                                    {"quality", verdict.as_expected.quality},
                                    {"caught", verdict.as_expected.caught},
                                    {"valid", verdict.as_expected.valid}}) {
      if (met) json["as_expected"][name] = *met;
    }
    verdicts.push_back(std::move(json));
  }
  return verdicts;
}

}  // namespace tenfold
