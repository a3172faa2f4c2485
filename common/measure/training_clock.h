#pragma once
// What one training came to, and the clock that a training keeps for it:
//
//   TrainingClock clock(trial.device);
//   for (int64_t update = 1; update <= updates; ++update) {
//     train();
//     if (update % every == 0) clock.evaluate([&] { return validation_loss(); });
//   }
//   return clock.learned();

#include <torch/torch.h>

#include <cstdint>
#include <functional>

#include "common/measure/clock.h"
#include "common/result/quality.h"

namespace tenfold {

/// What a training came to. Its last evaluation is its end.
struct Learned {
  Curve curve;
  /// It waited for hardly anything and no other thread worked for it: its processor time says how long it takes.
  bool one_thread = false;
};

/// Stands still while the model is evaluated.
class TrainingClock {
 public:
  /// Runs from now on: what is built before costs no training time.
  explicit TrainingClock(torch::Device device);

  /// Notes how good the model is after the training so far. `quality` runs without gradients; the process's random
  /// state and flags are afterwards what they were, the model's mode is its own affair.
  void evaluate(const std::function<double()>& quality);

  /// Throws std::logic_error when nothing was evaluated.
  Learned learned() const;

 private:
  torch::Device device_;
  Stopwatch watch_;
  double wall_ = 0, processor_ = 0, thread_ = 0;  // seconds of training so far
  int64_t waits_ = 0;
  Curve curve_;
};

}  // namespace tenfold
