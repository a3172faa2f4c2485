#pragma once
// What lesson 16's techniques should do: the baseline's region "data" leaves the step, and what moves the technique's
// bytes comes in, at this machine's measured rate of copies.

#include "common/harness/lesson.h"
#include "decoded_images.h"

#include <cmath>

namespace tenfold::inline lesson_16 {

inline int64_t most_bytes(const Trial& trial) { return clipart_most_bytes(trial, trial.get(kSide)); }

/// Takes the baseline's preparation out of the step and puts in what moves so many bytes for each number of the batch,
/// and calls so many operators.
inline Prediction moved(const Counted& baseline, double bytes_per_number, double operators) {
  const double rate = baseline.ceiling("cpu_copy_bytes_per_s");
  const double call = baseline.ceiling("cpu_new_tensor_op_seconds");
  const double numbers =
      static_cast<double>(baseline.get(clipart::kBatch)) * 3 * std::pow(static_cast<double>(baseline.get(kSide)), 2);
  const double seconds = numbers * bytes_per_number / rate + operators * call;
  return {.speed_ratio = 1 / (1 - baseline.share("data") + seconds / baseline.step_seconds)};
}

/// A byte read, a float written.
inline Prediction one_pass(const Counted& baseline) { return moved(baseline, 1 + 4, 0); }

/// Bytes collected (1 + 1), picked by 64-bit numbers (which are made, and read: 16 / 3; 1 + 1), brought into order (1 +
/// 1), made floats (1 + 4), shifted and scaled in place (8 + 8): by some twenty operators.
inline Prediction few_operators(const Counted& baseline) { return moved(baseline, 27 + 16.0 / 3, 20); }

}  // namespace tenfold::inline lesson_16
