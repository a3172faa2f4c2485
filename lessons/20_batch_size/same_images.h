#pragma once
// Does a larger batch train as well? The same images, in the same number of passes, with the same learning rate or
// one that grows with the batch: only the batch differs, and with it the number of updates.

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <functional>

#include "common/harness/lesson.h"
#include "common/models/fashion_mnist.h"
#include "training.h"

namespace tenfold::inline lesson_20 {

inline constexpr Setting<int64_t> kImages{"images", 2048, "images that a training sees"};

/// Trains with this batch, and with so many times the learning rate, until it has seen the setting's number of images.
inline std::function<Learned(const Trial&)> train_with_batch(int64_t batch, double times_rate = 1) {
  return [batch, times_rate](const Trial& trial) {
    FashionTraining training(trial);
    auto& options = training.optimizer->param_groups().front().options();
    options.set_lr(times_rate * options.get_lr());
    FashionBatches batches(trial, batch);
    const int64_t updates = trial.get(kImages) / batch;
    TORCH_CHECK_VALUE(updates > 0, "images=", trial.get(kImages), " are fewer than one batch of ", batch);
    trial.note("updates", static_cast<double>(updates), "updates");
    const Step step{.items = batch, .update = [&] { return training.update(batches); }};
    return train_to_the_end(trial.device, step, {.updates = updates, .evaluations = 4},
                            [&] { return held_out_loss(training.forward, trial.device); });
  };
}

}  // namespace tenfold::inline lesson_20
