#pragma once
// Trainings to an end, with some levers pulled: does the model become as good, and after how long?

#include <cstdint>
#include <memory>
#include <optional>

#include "lessons/60_early_stopping/early_stopping.h"
#include "pictures.h"
#include "texts.h"

namespace tenfold::inline lesson_90 {

inline constexpr Setting<int64_t> kUpdates{"updates", {240, 2000, 5000}, "updates that a training is planned for"};
inline constexpr Setting<int64_t> kEvery{"every", {12, 100, 250}, "updates from one validation to the next"};
inline constexpr Setting<int64_t> kPatience{"patience", 4, "validations without an improvement before training stops"};

/// Ways to train: the levers that a single process can pull, and whether it stops when validation says so.
struct Way {
  Levers levers;
  bool stops = false;
};

/// Validates all of the held-out data's first half now and then, in training time, as the pipeline does; what is
/// compared is the loss on the second half, which nothing was chosen on, and the clock stands still for it.
template <class Training>
Learned train(const Trial& trial, Training& work, const Way& way) {
  const int64_t updates = trial.get(kUpdates), every = trial.get(kEvery);
  const int64_t half = work.trainer.held_out() / 2;
  std::optional<EarlyStopping> stopping;
  if (way.stops)
    stopping.emplace(work.trainer.parameters().values(), EarlyStoppingOptions{.patience = trial.get(kPatience)});
  const auto unseen = [&] { return work.trainer.validation_loss(half, 2 * half).template item<double>(); };
  TrainingClock clock(trial.device);
  int64_t trained = 0;
  for (bool stop = false; trained < updates && !stop;) {
    work.update();
    if (++trained % every != 0) continue;
    const double loss = work.trainer.validation_loss(0, half).template item<double>();
    stop = stopping && stopping->should_stop(loss);
    if (stop || trained == updates) {
      if (stopping) stopping->restore_best();
    }
    clock.evaluate(unseen);
  }
  return clock.learned();
}

inline Learned train_pictures(const Trial& trial, const Way& way) {
  PictureTraining work(trial, way.levers);
  return train(trial, work, way);
}

inline Learned train_texts(const Trial& trial, const Way& way) {
  TextTraining work(trial, way.levers);
  return train(trial, work, way);
}

}  // namespace tenfold::inline lesson_90
