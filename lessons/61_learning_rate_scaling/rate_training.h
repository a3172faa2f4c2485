#pragma once
// Trainings of one MLP at other batch sizes and learning rates, and the sweep that finds the best rate of a batch.

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/mlp.h"
#include "warmup.h"

namespace tenfold::inline lesson_61 {

inline constexpr Setting<int64_t> kTimes{"times", 4, "small batches in a large one"};
inline constexpr Setting<double> kMomentum{"momentum", 0.9, "of SGD"};
inline constexpr Setting<int64_t> kUpdates{"updates", 1024, "updates of a training with the small batch"};
inline constexpr Setting<std::string> kOptimizer{"optimizer", "sgd", "of the trainings", {"sgd", "adam"}};

inline constexpr double kGuessing = 2.302585092994046;  ///< ln 10: the loss of ten classes alike

/// How one training goes.
struct Plan {
  int64_t batch = 0, updates = 0;
  double rate = 0;             ///< in the first update
  double factor = 1;           ///< times `rate`, after the warm-up; from there it falls to 0
  int64_t warm_up = 0;         ///< updates
  std::string optimizer = "";  ///< "sgd" with momentum, or "adam"
};

inline std::unique_ptr<torch::optim::Optimizer> optimizer_of(const Plan& plan, std::vector<torch::Tensor> parameters,
                                                             double momentum) {
  if (plan.optimizer == "adam")
    return std::make_unique<torch::optim::Adam>(std::move(parameters), torch::optim::AdamOptions(plan.rate));
  return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                             torch::optim::SGDOptions(plan.rate).momentum(momentum));
}

/// On 500 images that are not trained on. A training that has diverged knows no more than guessing: NaN and all that is
/// worse count as that, else one such seed would be the whole mean.
inline double bounded_held_out_loss(Mlp& model, torch::Device device) {
  const double loss = held_out_loss([&](const torch::Tensor& images) { return model->forward(images); }, device);
  return std::isfinite(loss) ? std::min(loss, kGuessing) : kGuessing;
}

/// The MLP of the trial's settings on batches of the plan's size.
struct PlannedTraining : MlpTraining {
  PlannedTraining(const Trial& trial, const Plan& plan)
      : MlpTraining(trial, mlp_options(trial), plan.batch), device(trial.device) {
    optimizer = optimizer_of(plan, model->parameters(), trial.get(kMomentum));
  }

  torch::Tensor next_loss() {
    const auto [images, labels] = next_batch();
    return torch::cross_entropy_loss(model->forward(images), labels);
  }
  torch::Tensor update() {
    optimizer->zero_grad();
    const torch::Tensor loss = next_loss();
    loss.backward();
    optimizer->step();
    return loss.detach();
  }
  double quality() { return bounded_held_out_loss(model, device); }

  torch::Device device;
};

/// Trains `work`, which has update(), quality() and an optimizer, with the rates of a schedule, to the end.
template <class Training>
Learned train_by(Training& work, const WarmUpOptions& schedule, int64_t batch) {
  WarmUp warm_up(*work.optimizer, schedule);
  const auto update = [&] {
    const torch::Tensor loss = work.update();
    warm_up.step();
    return loss;
  };
  return train_to_the_end(work.device, {.items = batch, .update = update},
                          {.updates = schedule.updates, .evaluations = 8}, [&] { return work.quality(); });
}

/// What `work` comes to after so many updates, whose rates fall to 0 in a line.
template <class Training>
double quality_after(Training& work, int64_t updates) {
  WarmUp falls(*work.optimizer, {.updates = updates});
  for (int64_t update = 0; update < updates; ++update) {
    work.update();
    falls.step();
  }
  return work.quality();
}

inline Learned train(const Trial& trial, const Plan& plan) {
  torch::manual_seed(trial.seed);  // a sweep before may have drawn
  PlannedTraining work(trial, plan);
  trial.note("learning rate", plan.rate * plan.factor, "");
  trial.note("batch", static_cast<double>(plan.batch), "images");
  trial.note("updates", static_cast<double>(plan.updates), "updates");
  return train_by(work, {plan.factor, plan.warm_up, plan.updates}, plan.batch);
}

/// Of these rates the one with the lowest `loss_at`. Rates should lie a factor of 2 apart, as the best of them is known
/// to that factor.
inline double best_rate(const std::vector<double>& rates, const std::function<double(double)>& loss_at) {
  TORCH_CHECK_VALUE(!rates.empty(), "best_rate: no rates");
  double best = rates.front(), lowest = std::numeric_limits<double>::infinity();
  for (const double rate : rates) {
    if (const double loss = loss_at(rate); loss < lowest) {
      best = rate;
      lowest = loss;
    }
  }
  return best;
}

/// Powers of 2 times `middle`, from 2^from to 2^to.
inline std::vector<double> rates_around(double middle, int from, int to) {
  std::vector<double> rates;
  for (int power = from; power <= to; ++power) rates.push_back(std::ldexp(middle, power));
  return rates;
}

/// The best rate for a plan's batch and updates, by the mean of trainings of two seeds that no training to be compared
/// has. The same for every seed of this process.
inline double tuned_rate(const Trial& trial, const Plan& plan, int from, int to) {
  const std::string name = "best rate of batch " + std::to_string(plan.batch) + ", " + std::to_string(plan.updates) +
                           " updates of " + plan.optimizer;
  return trial.shared<double>(name, [&] {
    return best_rate(rates_around(plan.rate, from, to), [&](double rate) {
      double sum = 0;
      for (const uint64_t seed : {1000003, 1000033}) {
        torch::manual_seed(seed);
        Trial other = trial;
        other.seed = seed;
        Plan with_rate = plan;
        with_rate.rate = rate;
        PlannedTraining work(other, with_rate);
        sum += quality_after(work, plan.updates);
      }
      return sum;
    });
  });
}

/// What decides a run's plan, from that of the small batch.
struct Rule {
  RateRule rate = RateRule::none;
  bool large = true;          ///< the large batch
  bool equal_samples = true;  ///< fewer updates with the large batch; else as many
  double warm_up = 0;         ///< part of the updates
  bool tuned = false;         ///< the best of a sweep instead of a rule
};

inline Plan planned(const Trial& trial, const Rule& rule) {
  const int64_t times = trial.get(kTimes);
  Plan plan{.batch = trial.get(mlp::kBatch),
            .updates = trial.get(kUpdates),
            .rate = trial.get(mlp::kLearningRate),
            .factor = rate_factor(rule.rate, static_cast<double>(times)),
            .optimizer = trial.get(kOptimizer)};
  if (rule.large) {
    plan.batch *= times;
    if (rule.equal_samples) plan.updates = std::max<int64_t>(1, plan.updates / times);
  }
  plan.warm_up = static_cast<int64_t>(rule.warm_up * static_cast<double>(plan.updates));
  return plan;
}

inline std::function<Learned(const Trial&)> run_by(const Rule& rule) {
  return [rule](const Trial& trial) {
    Plan plan = planned(trial, rule);
    // From the small batch's rate to twice the linear rule's.
    const int to = 1 + static_cast<int>(std::ceil(std::log2(static_cast<double>(trial.get(kTimes)))));
    if (rule.tuned) plan.rate = tuned_rate(trial, plan, 0, to);
    return train(trial, plan);
  };
}

}  // namespace tenfold::inline lesson_61
