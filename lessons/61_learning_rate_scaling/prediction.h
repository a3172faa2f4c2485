#pragma once
// What measuring the noise costs a step, and how many updates a batch size takes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/harness/lesson.h"
#include "rate_training.h"

namespace tenfold::inline lesson_61 {

/// Updates to a loss with batches of `batch` samples over those with the whole gradient: 1 + B_noise / B. An update's
/// best rate is 1 / (1 + B_noise / B) of the noiseless one, and it comes as much less far: noise B_noise / B times as
/// large as the gradient adds that much to the loss's second-order term. Holds where every batch has its best rate,
/// and while the noise scale stays about the same.
/// Source: McCandlish et al., arXiv:1812.06162, section 2.2.
inline double updates_over_least(double noise_scale, double batch) { return 1 + noise_scale / batch; }

/// S = least (1 + batch / B), fitted.
struct CriticalBatch {
  double batch = 0, least_updates = 0;
};

/// By least squares of relative errors over 1 / B: S is known to a part of itself. Needs two different batches.
inline CriticalBatch fit_critical_batch(const std::vector<double>& batches, const std::vector<double>& updates) {
  double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0;
  for (size_t i = 0; i < batches.size(); ++i) {
    const double x = 1 / batches[i], weight = 1 / (updates[i] * updates[i]);
    w += weight;
    wx += weight * x;
    wxx += weight * x * x;
    wy += weight * updates[i];
    wxy += weight * x * updates[i];
  }
  const double slope = (w * wxy - wx * wy) / (w * wxx - wx * wx), least = (wy - slope * wx) / w;
  return {.batch = slope / least, .least_updates = least};
}

/// Speed: of each micro-batch's gradients, and of the update's, a norm for each of two parameters a layer, four
/// operators that make one number of them, and two that add it up; the first micro-batch's are copied. Each takes as
/// long as one of the optimizer's, which work on the same tensors.
/// Peak: a micro-batch's gradients are all there before they are added to those of the ones before; backward() by
/// itself adds each as it comes. By then no activations are left.
inline Prediction predict_noise(const Counted& counted) {
  const int64_t parameters = 2 * counted.get(mlp::kLayers);
  const int64_t operators = (counted.get(kTimes) + 1) * (parameters + 6) + parameters;
  const double of_update = static_cast<double>(operators) / static_cast<double>(counted.region("update").operators);
  return {.speed_ratio = 1 / (1 + of_update * counted.share("update")),
          .peak_bytes = std::max(counted.peak_bytes, counted.resting_bytes + counted.parameter_bytes)};
}

/// One update by the optimizer for each micro-batch instead of one for all.
inline Prediction predict_small_updates(const Counted& counted) {
  const auto more = static_cast<double>(counted.get(kTimes) - 1);
  return {.speed_ratio = 1 / (1 + more * counted.share("update"))};
}

}  // namespace tenfold::inline lesson_61
