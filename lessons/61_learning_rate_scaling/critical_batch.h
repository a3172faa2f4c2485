#pragma once
// Updates to a target loss over the batch size, each batch at its own best rate, against what the noise scale says.

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "noise_survey.h"
#include "prediction.h"
#include "rate_training.h"

namespace tenfold::inline lesson_61 {

inline constexpr Setting<double> kTarget{"target", 0.75, "held-out loss that is trained to"};

/// Updates until the held-out loss is at the target, or infinity after `most`. It is looked at after every 4 % more
/// updates: that is how exact the answer is.
inline double updates_to(PlannedTraining& work, double target, int64_t most) {
  int64_t next = 1;
  for (int64_t update = 1; update <= most; ++update) {
    work.update();
    if (update < next) continue;
    if (work.quality() <= target) return static_cast<double>(update);
    next = update + 1 + update / 25;
  }
  return std::numeric_limits<double>::infinity();
}

struct ToTarget {
  double updates = std::numeric_limits<double>::infinity(), rate = 0;
};

/// The fewest updates over the rates, and the rate that needs them.
inline ToTarget fewest_updates(const Trial& trial, int64_t batch, const std::vector<double>& rates, int64_t most) {
  ToTarget best;
  for (const double rate : rates) {
    torch::manual_seed(trial.seed);
    PlannedTraining work(trial, {.batch = batch, .rate = rate, .optimizer = "sgd"});
    // A rate that takes longer than the best so far need not be followed.
    const auto limit = std::isfinite(best.updates) ? static_cast<int64_t>(best.updates) - 1 : most;
    if (const double updates = updates_to(work, trial.get(kTarget), limit); updates < best.updates)
      best = {updates, rate};
  }
  return best;
}

/// The noise scale where half of the way to the target is gone, in updates of the small batch.
inline double noise_on_the_way(const Trial& trial, double updates) {
  return weights_after(trial, static_cast<int64_t>(updates / 2)).exact().scale();
}

inline void note_critical_batch(const Trial& trial) {
  constexpr int64_t kMost = 3000;
  const int64_t small = trial.get(mlp::kBatch);
  std::vector<double> batches, updates;
  for (const int64_t times : {1, 4, 16, 64}) {
    const int64_t batch = small * times;
    const double middle = trial.get(mlp::kLearningRate) * std::sqrt(static_cast<double>(times));
    const ToTarget best = fewest_updates(trial, batch, rates_around(middle, 0, 2), kMost);
    const std::string name = "batch " + std::to_string(batch) + ": ";
    trial.note(name + "updates", best.updates, "updates");
    trial.note(name + "best rate", best.rate, "");
    batches.push_back(static_cast<double>(batch));
    updates.push_back(best.updates);
  }
  const double noise = noise_on_the_way(trial, updates.front());
  const CriticalBatch fitted = fit_critical_batch(batches, updates);
  trial.note("critical batch", fitted.batch, "images");
  trial.note("noise scale on the way", noise, "images");
  trial.note("critical batch / noise scale", fitted.batch / noise, "");
  for (size_t i = 0; i + 1 < batches.size(); ++i) {
    const double predicted =
        updates.back() * updates_over_least(noise, batches[i]) / updates_over_least(noise, batches.back());
    trial.note("batch " + std::to_string(static_cast<int64_t>(batches[i])) + ": predicted", predicted, "updates");
  }
}

}  // namespace tenfold::inline lesson_61
