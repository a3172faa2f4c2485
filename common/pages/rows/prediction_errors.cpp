#include "common/pages/rows/prediction_errors.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/text.h"
#include "common/result/judge.h"
#include "common/result/statistics.h"

namespace tenfold {
namespace {

PredictionErrors errors_of(const std::vector<Result>& results, const std::string& key, const std::string& name) {
  PredictionErrors errors{.of = name};
  std::vector<double> sizes;
  double largest = -1;
  for (const Result& result : results) {
    for (const CaseResult& c : result.cases) {
      for (const Verdict& verdict : c.verdicts) {
        const auto found = verdict.prediction_error.find(key);
        if (found == verdict.prediction_error.end()) continue;
        const double error = key == "speed" ? std::expm1(found->second) : found->second;
        // A speed's error is a logarithm.
        const double size = key == "speed" ? std::expm1(std::abs(found->second)) : std::abs(error);
        sizes.push_back(size);
        if (predictions_off(verdict).contains(key)) ++errors.off;
        if (size > largest) {
          largest = size;
          errors.worst = error;
          errors.where = number_of_name(result.lesson) + " " + verdict.technique + " (" + c.name + ")";
        }
      }
    }
  }
  errors.count = sizes.size();
  if (!sizes.empty()) errors.median = median(std::move(sizes));
  return errors;
}

}  // namespace

std::vector<PredictionErrors> prediction_errors(const std::vector<Result>& results) {
  std::vector<PredictionErrors> all;
  for (const auto& [key, name] :
       {std::pair("speed", "speed"), std::pair("peak", "peak memory"), std::pair("sent", "bytes sent")}) {
    PredictionErrors errors = errors_of(results, key, name);
    if (errors.count > 0) all.push_back(std::move(errors));
  }
  return all;
}

std::string median_text(const PredictionErrors& errors) {
  return "half within " + human_percent(std::max(errors.median, 0.001));
}

std::string prediction_errors_text(const PredictionErrors& errors) {
  return std::to_string(errors.count) + " predicted, " + median_text(errors) + ", " +
         (errors.off == 0 ? "none" : std::to_string(errors.off)) + " off by more than " +
         human_percent(kPredictionOff) + "; worst " + human_percent(errors.worst, true) + ": " + errors.where;
}

}  // namespace tenfold
