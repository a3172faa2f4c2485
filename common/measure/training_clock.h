#pragma once
// What one training came to. A training of so many updates:
//
//   return train_to_the_end(trial.device, step, {.updates = 200, .evaluations = 16}, held_out_loss);
//
// the same, judged by its workload's own held-out data:
//
//   return train_to_the_end(trial, build(trial), {.updates = 200, .evaluations = 16});
//
// and the clock that one keeps which a rule may end before:
//
//   TrainingClock clock(trial.device);
//   for (int64_t update = 1; update <= updates && !stop; ++update) {
//     train();
//     clock.trained(batch);
//     if (update % every == 0) clock.evaluate([&] { return validation_loss(); });
//   }
//   return clock.learned();

#include <torch/torch.h>

#include <cstdint>
#include <functional>

#include "common/measure/clock.h"
#include "common/measure/step.h"
#include "common/measure/trial.h"
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

  /// So many items more were trained on. Not needed for a training's time; for its rate it is.
  void trained(int64_t items) { curve_.items = curve_.items.value_or(0) + items; }

  /// Throws std::logic_error when nothing was evaluated.
  Learned learned() const;

 private:
  torch::Device device_;
  Stopwatch watch_;
  double wall_ = 0, processor_ = 0, thread_ = 0;  // seconds of training so far
  int64_t waits_ = 0;
  Curve curve_;
};

struct TrainingLength {
  int64_t updates = 0;
  int64_t evaluations = 1;  ///< after equally many updates each; the last update is followed by one in any case
};

/// Trains to the end of so many updates. `quality` is evaluated without gradients, while the clock stands still; so do
/// the step's own threads.
Learned train_to_the_end(torch::Device device, const Step& step, const TrainingLength& length,
                         const std::function<double()>& quality);

/// Trains with a variant's own step. Judged by Work::held_out_loss of the trial's workload, of a model in 32 bits with
/// the values of the step's parameters, or of what it gathers, by name. Throws std::logic_error where there is no such.
Learned train_to_the_end(const Trial& trial, const Step& step, const TrainingLength& length);

}  // namespace tenfold
