#pragma once
// What is trained to an end and what is only looked at, with the settings of each.

#include <cstdint>
#include <vector>

#include "common/harness/lesson.h"
#include "critical_batch.h"
#include "noise_survey.h"
#include "rate_training.h"
#include "widths.h"

namespace tenfold::inline lesson_61 {

/// In place of the setting's value, if it has one.
inline std::vector<Assignment> with(std::vector<Assignment> settings, const Assignment& more) {
  std::erase_if(settings, [&](const Assignment& assignment) { return assignment.name == more.name; });
  settings.push_back(more);
  return settings;
}

inline std::vector<Assignment> linear_rule() { return {kMomentum(0.0), mlp::kLayers(2)}; }
/// The rates are the best of a sweep at the small batch, to a factor of 2.
inline std::vector<Assignment> sgd_settings() {
  return {mlp::kBatch(8), mlp::kLayers(3), mlp::kLearningRate(0.02), kTimes(4), kUpdates(1536)};
}
inline std::vector<Assignment> adam_settings() {
  return {mlp::kBatch(16), mlp::kLayers(3), mlp::kLearningRate(0.008), kTimes(16), kOptimizer("adam")};
}
inline std::vector<Assignment> width_settings() {
  return {mlp::kBatch(64), mlp::kLayers(6),           mlp::kWidth(256),
          kUpdates(160),   mlp::kLearningRate(0.016), kOptimizer("adam")};
}

inline std::vector<Training> trainings() {
  using namespace tenfold::expect;
  // All of the loss on images that no training sees; stated before anything was measured.
  const Metric loss{.name = "held-out loss", .margin = 0.05, .relative = true};
  // A sweep in steps of 2 finds the best rate to such a factor; what that costs differs between seeds.
  const Metric of_widths{.name = "held-out loss", .margin = 0.1, .relative = true};
  constexpr RateRule kNone = RateRule::none, kRoot = RateRule::square_root, kLinear = RateRule::linear;
  const auto small = run_by({.large = false});
  return {{.name = "4 times the batch",
           .metric = loss,
           .runs = {{"small batch", small},
                    {"same rate", run_by({.rate = kNone}), WORSE},
                    {"square root", run_by({.rate = kRoot})},
                    {"linear", run_by({.rate = kLinear}), NOT_WORSE},
                    {"linear, warm-up", run_by({.rate = kLinear, .warm_up = 0.1}), NOT_WORSE},
                    {"tuned", run_by({.tuned = true}), NOT_WORSE},
                    // The other way round: a rate that was tuned for the large batch.
                    {"small batch, large one's rate", run_by({.rate = kLinear, .large = false}), WORSE}},
           .settings = sgd_settings()},
          {.name = "4 times the batch, equal updates",
           .metric = loss,
           .runs = {{"small batch", small},
                    {"same rate", run_by({.rate = kNone, .equal_samples = false}), NOT_WORSE},
                    {"linear, warm-up", run_by({.rate = kLinear, .equal_samples = false, .warm_up = 0.1}), NOT_WORSE}},
           .settings = with(sgd_settings(), kUpdates(384))},
          // Beyond the critical batch no rate brings back the updates that are missing.
          {.name = "64 times the batch",
           .metric = loss,
           .runs = {{"small batch", small},
                    {"square root", run_by({.rate = kRoot}), WORSE},
                    {"linear", run_by({.rate = kLinear}), WORSE},
                    {"linear, warm-up", run_by({.rate = kLinear, .warm_up = 0.1}), WORSE},
                    {"tuned", run_by({.tuned = true}), WORSE}},
           .settings = with(sgd_settings(), kTimes(64))},
          // Adam divides by the gradient's size, noise and all: the linear rule goes too far.
          {.name = "Adam, 16 times the batch",
           .metric = loss,
           .runs = {{"tuned", run_by({.tuned = true})},
                    {"same rate", run_by({.rate = kNone}), WORSE},
                    {"square root", run_by({.rate = kRoot}), NOT_WORSE},
                    {"linear", run_by({.rate = kLinear}), WORSE},
                    {"small batch", small, NOT_WORSE}},
           .settings = adam_settings()},
          // The best rate of a narrow model against the one that a sweep finds at this width.
          {.name = "16 times the width, standard",
           .metric = of_widths,
           .runs = {{"tuned at this width", wide_by(Parametrisation::standard, false)},
                    {"tuned at the narrow width", wide_by(Parametrisation::standard, true), WORSE}},
           .settings = width_settings()},
          {.name = "16 times the width, muP",
           .metric = of_widths,
           .runs = {{"tuned at this width", wide_by(Parametrisation::mup, false)},
                    {"tuned at the narrow width", wide_by(Parametrisation::mup, true), NOT_WORSE}},
           .settings = width_settings()}};
}

inline std::vector<Assignment> survey_settings() {
  return {mlp::kBatch(16), mlp::kLayers(3), mlp::kLearningRate(0.02), kTimes(8)};
}

inline std::vector<Survey> surveys() {
  constexpr int64_t kTrained = 256;
  const auto after = [](void (*note)(const Trial&, int64_t), int64_t updates) {
    return [note, updates](const Trial& trial) { note(trial, updates); };
  };
  const auto in = [](void (*note)(const Trial&, Parametrisation), Parametrisation parametrisation) {
    return [note, parametrisation](const Trial& trial) { note(trial, parametrisation); };
  };
  return {{"gradient variance",
           {{"at the start", after(note_variance, 0)}, {"after training", after(note_variance, kTrained)}},
           survey_settings()},
          {"noise scale",
           {{"at the start", after(note_noise_scale, 0)}, {"after training", after(note_noise_scale, kTrained)}},
           survey_settings()},
          {"updates to a loss", {{"best rate of each batch", note_critical_batch}}, survey_settings()},
          {"coordinate check",
           {{"standard", in(note_coordinates, Parametrisation::standard)},
            {"muP", in(note_coordinates, Parametrisation::mup)}},
           {mlp::kBatch(64), mlp::kLayers(6), kOptimizer("adam"), kBaseWidth(64)}}};
}

}  // namespace tenfold::inline lesson_61
