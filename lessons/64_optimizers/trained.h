#pragma once
// Trainings with one optimizer or two: the step that all variants of lesson 64 have, and the rate's schedule.

#include <torch/torch.h>

#include <ATen/record_function.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/harness/lesson.h"
#include "lion.h"
#include "muon.h"
#include "schedule_free.h"
#include "settings.h"
#include "shampoo.h"

namespace tenfold::inline lesson_64 {

/// A model with its optimizers.
struct Trained {
  Work work;
  std::vector<std::shared_ptr<torch::optim::Optimizer>> optimizers;
  /// Set: has to be switched before the model is evaluated.
  std::shared_ptr<ScheduleFreeAdamW> averaged = nullptr;
  /// No schedule but its own.
  bool schedule_free = false;
};

/// LibTorch's, with the lesson's weight decay.
inline std::shared_ptr<torch::optim::Optimizer> adamw_of(const Trial& trial,
                                                         const std::vector<torch::Tensor>& parameters, double rate) {
  return std::make_shared<torch::optim::AdamW>(
      parameters,
      torch::optim::AdamWOptions(rate).betas({0.9, trial.get(kBeta2)}).weight_decay(trial.get(kWeightDecay)));
}

/// As the trial's settings have them.
inline MuonOptions muon_options(const Trial& trial) {
  return MuonOptions(trial.get(kMuonRate)).weight_decay(trial.get(kWeightDecay)).native_bf16(trial.get(kNativeBf16));
}

inline Trained with_muon(const Trial& trial, const Work& work, const MuonSplit& split, const MuonOptions& options) {
  return {work, {std::make_shared<Muon>(split.hidden, options), adamw_of(trial, split.rest, trial.get(kAdamWRate))}};
}

inline Trained with_shampoo(const Trial& trial, const Work& work, const MuonSplit& split) {
  const auto options = ShampooOptions(trial.get(kShampooRate)).weight_decay(trial.get(kWeightDecay));
  return {work, {std::make_shared<Shampoo>(split.hidden, options), adamw_of(trial, split.rest, trial.get(kAdamWRate))}};
}

inline Trained lion_at(const Trial& trial, double rate) {
  const Work work = trial.workload.make(trial);
  const auto options = LionOptions(rate).weight_decay(trial.get(kWeightDecay));
  return {work, {std::make_shared<Lion>(work.parameters.values(), options)}};
}
using Make = Trained (*)(const Trial&);

/// One update; `before` is called ahead of it.
inline Step step_of(const Trained& trained, const std::function<void()>& before = [] {}) {
  return {.items = trained.work.items, .parameters = trained.work.parameters, .update = [trained, before] {
            before();
            for (const auto& parameter : trained.work.parameters) parameter.value().mutable_grad() = torch::Tensor();
            torch::Tensor loss;
            {
              RECORD_USER_SCOPE("loss");
              loss = trained.work.next_loss();
              loss.backward();
            }
            RECORD_USER_SCOPE("optimizer");
            for (const auto& optimizer : trained.optimizers) optimizer->step();
            return loss;
          }};
}

/// What an update's rate is of the largest: up in a tenth of all updates, then down to zero in a line.
inline double rate_part(int64_t update, int64_t updates) {
  const int64_t warm_up = std::max<int64_t>(1, updates / 10);
  if (update <= warm_up) return static_cast<double>(update) / static_cast<double>(warm_up);
  return static_cast<double>(std::max<int64_t>(0, updates + 1 - update)) / static_cast<double>(updates + 1 - warm_up);
}

/// The same step, whose rates follow the schedule.
inline Step scheduled(const Trained& trained, int64_t updates) {
  if (trained.schedule_free) return step_of(trained);
  std::vector<double> rates;
  for (const auto& optimizer : trained.optimizers) rates.push_back(optimizer->param_groups().at(0).options().get_lr());
  return step_of(trained, [trained, updates, rates, update = std::make_shared<int64_t>(0)] {
    ++*update;
    for (size_t i = 0; i < rates.size(); ++i)
      trained.optimizers[i]->param_groups()[0].options().set_lr(rates[i] * rate_part(*update, updates));
  });
}

/// Of the weights that are to be used: schedule-free AdamW's are not those that it trains.
inline double held_out_loss(const Trained& trained) {
  if (trained.averaged) trained.averaged->eval();
  const double loss = trained.work.held_out_loss();
  if (trained.averaged) trained.averaged->train();
  return loss;
}

/// A run of a training: so many updates, whatever the held-out loss says on the way.
inline std::function<Learned(const Trial&)> to_the_end(Make make) {
  return [make](const Trial& trial) {
    const Trained trained = make(trial);
    const int64_t updates = trial.get(kUpdates);
    return train_to_the_end(trial.device, scheduled(trained, updates), {.updates = updates, .evaluations = 10},
                            [&] { return held_out_loss(trained); });
  };
}

}  // namespace tenfold::inline lesson_64
