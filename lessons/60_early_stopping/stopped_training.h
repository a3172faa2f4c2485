#pragma once
// Trainings to an end that a rule may bring forward, and what the rule is worth.

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>

#include "common/harness/lesson.h"
#include "early_stopping.h"
#include "images.h"

namespace tenfold::inline lesson_60 {

inline constexpr Setting<int64_t> kUpdates{"updates", 160, "updates of a training that nothing stops"};
inline constexpr Setting<int64_t> kPatience{"patience", 5, "checks without an improvement before training stops"};

/// When a training ends. Without a patience after all its updates.
struct StopRule {
  std::optional<int64_t> patience = std::nullopt;  ///< checks
  bool restore = true;                             ///< the best weights, at the end
  int64_t every = 0;                               ///< updates between two checks; 0: as the setting says
  bool on_training_images = false;                 ///< the mistake: checks on what the model is trained on
};

/// Trains until the rule says stop, or to the end. What is compared is the loss on images that neither the weights nor
/// the stop were chosen on; measuring it stops the clock. The rule's own checks do not: they are what it costs.
inline Learned train_until(const Trial& trial, const StopRule& rule) {
  constexpr int64_t kUnseen = 512, kEvaluations = 5;  // of a training that nothing stops
  const int64_t updates = checked(trial, kUpdates, int64_t{1} << 30);
  const int64_t every = rule.every > 0 ? rule.every : checked(trial, kEvery, int64_t{1} << 30);
  const int64_t between_evaluations = std::max(updates / kEvaluations, int64_t{1});
  ImagesTraining work(trial);
  const ImageSet unseen = unseen_images(kUnseen);
  const ImageSet validation = rule.on_training_images ? work.set : validation_images(trial);
  std::optional<EarlyStopping> stopping;
  if (rule.patience)
    stopping.emplace(training_state(*work.model),
                     EarlyStoppingOptions{.patience = *rule.patience, .keep_best = rule.restore});
  TrainingClock clock(trial.device);
  int64_t update = 0;
  for (bool ended = false; !ended;) {
    work.update();
    clock.trained(work.batch);
    ++update;
    ended = update == updates;
    if (stopping && (ended || update % every == 0))
      ended = stopping->should_stop(mean_loss(work.model, validation, trial.device)) || ended;
    if (stopping && ended && rule.restore && stopping->best_check() > 0) stopping->restore_best();
    if (ended || update % between_evaluations == 0)
      clock.evaluate([&] { return mean_loss(work.model, unseen, trial.device); });
  }
  const double part = 100 * static_cast<double>(update) / static_cast<double>(updates);
  trial.note("trained", part, "% of the updates");
  if (stopping) {
    trial.note("best weights", static_cast<double>(stopping->best_bytes()), "bytes");
    const auto best = static_cast<double>(stopping->best_check() * every);
    trial.note("best found at", 100 * best / static_cast<double>(updates), "% of the updates");
  }
  return clock.learned();
}

/// A run of a training. Patience 0 stands for the setting's.
inline std::function<Learned(const Trial&)> run_until(StopRule rule) {
  return [rule](const Trial& trial) {
    StopRule chosen = rule;
    if (chosen.patience == 0) chosen.patience = trial.get(kPatience);
    return train_until(trial, chosen);
  };
}

}  // namespace tenfold::inline lesson_60
