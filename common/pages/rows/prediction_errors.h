#pragma once
// How far predictions were from what was measured, over many results.

#include <cstddef>
#include <string>
#include <vector>

#include "common/result/result.h"

namespace tenfold {

/// Of one predicted quantity. Errors are measured / predicted - 1.
struct PredictionErrors {
  std::string of;     ///< "speed" or "peak memory"
  size_t count = 0;   ///< variants with such a prediction and a measurement
  double median = 0;  ///< of the errors' sizes; of a speed, half as fast and twice as fast are equally far off
  double worst = 0;   ///< with its sign
  size_t off = 0;     ///< further off than kPredictionOff
  std::string where;  ///< the worst one's lesson, variant and case: "52 overlapped (gpt)"
};

/// Speed, peak memory, bytes sent; without those that nothing was predicted of.
std::vector<PredictionErrors> prediction_errors(const std::vector<Result>& results);

/// "half within 4.1 %"; not finer than 0.1 %.
std::string median_text(const PredictionErrors& errors);

/// "118 predicted, half within 4.1 %, 16 off by more than 25 %; worst -47 %: 26 two forwards (one kernel)".
std::string prediction_errors_text(const PredictionErrors& errors);

}  // namespace tenfold
