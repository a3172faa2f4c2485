// Lesson 62 - Layer-wise rates
// Does a rate for each layer fine-tune better than one tuned rate, and what do frozen layers save?
// Read layerwise_rates.h first: stages, groups, and what freezes. by_hand() is the same without an optimizer;
// fine_tuning.h trains a network on five classes, and fine-tunes it to the other five.
#include "common/harness/lesson.h"
#include "fine_tuning.h"
#include "frozen_bytes.h"
#include "layerwise_rates.h"
#include "prediction.h"
#include "settings.h"
#include "trainings.h"

namespace {
using namespace tenfold;
using torch::Tensor;
using torch::optim::SGDOptions;

/// The workload's convnet in stages, with its rate for the last one.
struct StagedTraining : FashionConvNet {
  explicit StagedTraining(const Trial& trial)
      : FashionConvNet(trial),
        stages(stages_of(model->named_parameters(), stage_names())),
        rate(trial.get(convnet::kLearningRate)),
        decay(trial.get(kDecay)),
        frozen(checked(trial, kFrozen, 0, 2)),
        above(trial.get(kFrozenAbove)) {
    optimizer = nullptr;
  }
  bool trains(size_t stage) const { return stage_trains(static_cast<int64_t>(stage), frozen, above); }
  /// What the agreement check compares: a frozen stage has no gradient.
  Parameters trained() const {
    Parameters all;
    for (const auto& parameter : model->named_parameters())
      for (size_t i = 0; i < stages.size(); ++i)
        if (trains(i) && belongs_to(parameter.key(), stages[i].prefix)) all.insert(parameter.key(), parameter.value());
    return all;
  }
  Tensor loss_of_next() {
    const auto [images, labels] = next_batch();
    Tensor loss;
    {
      RECORD_USER_SCOPE("forward");
      loss = torch::cross_entropy_loss(model(images), labels);
    }
    RECORD_USER_SCOPE("backward");
    loss.backward();
    return loss.detach();
  }
  Stages stages;
  double rate, decay;
  int64_t frozen;
  bool above;
};

/// Without the technique: SGD with momentum written out, a rate for each stage, 0 where it is frozen.
Step by_hand(const Trial& trial) {
  auto work = std::make_shared<StagedTraining>(trial);
  auto momenta = std::make_shared<std::vector<Tensor>>();
  return {work->batches.batch(), work->trained(), [work, momenta] {
            work->model->zero_grad();
            const Tensor loss = work->loss_of_next();
            const torch::NoGradGuard no_graph;
            size_t next = 0;
            for (size_t i = 0; i < work->stages.size(); ++i) {
              const double rate = work->trains(i) ? layer_rate(work->rate, work->decay, i, work->stages.size()) : 0;
              for (const Tensor& parameter : work->stages[i].parameters) {
                if (momenta->size() == next) momenta->push_back(torch::zeros_like(parameter));
                Tensor& momentum = (*momenta)[next++];
                momentum.mul_(0.9).add_(parameter.grad());
                parameter.add_(momentum, -rate);
              }
            }
            return loss;
          }};
}

/// An update with an optimizer, before which `before` may change its rates.
Step with_optimizer(const std::shared_ptr<StagedTraining>& work, const std::function<void()>& before = nullptr) {
  return {work->batches.batch(), work->trained(), [work, before] {
            if (before) before();
            work->optimizer->zero_grad();
            const Tensor loss = work->loss_of_next();
            work->optimizer->step();
            return loss;
          }};
}
void give_groups(StagedTraining& work, const Stages& stages, double decay) {
  const auto base = SGDOptions(work.rate).momentum(0.9);
  work.optimizer = std::make_unique<torch::optim::SGD>(layerwise_groups(stages, base, decay), base);
}

/// With it: a group for each stage, and a schedule that multiplies each group's own rate.
Step parameter_groups(const Trial& trial) {
  auto work = std::make_shared<StagedTraining>(trial);
  give_groups(*work, work->stages, work->decay);
  auto schedule = std::make_shared<RateSchedule>(*work->optimizer);
  return with_optimizer(work, [schedule] { schedule->scale(1); });
}

/// With it: frozen stages need no gradient, so the optimizer passes over them, and backward() ends above them.
Step frozen(const Trial& trial) {
  auto work = std::make_shared<StagedTraining>(trial);
  give_groups(*work, work->stages, work->decay);
  for (size_t i = 0; i < work->stages.size(); ++i) set_trained(work->stages[i], work->trains(i));
  return with_optimizer(work);
}

/// A trap: the groups have their rates, and then the schedule writes its own into each: lr_scale is never applied.
Step scale_never_applied(const Trial& trial) {
  auto work = std::make_shared<StagedTraining>(trial);
  give_groups(*work, work->stages, work->decay);
  return with_optimizer(work, [work] {
    for (auto& group : work->optimizer->param_groups()) group.options().set_lr(work->rate);
  });
}

/// A trap: the decay counts from the wrong end; the layers nearest to the images learn fastest.
Step decay_from_the_input(const Trial& trial) {
  auto work = std::make_shared<StagedTraining>(trial);
  give_groups(*work, Stages(work->stages.rbegin(), work->stages.rend()), work->decay);
  return with_optimizer(work);
}

/// A trap: groups by the names of weights alone; no bias is in any of them, and none trains.
Step biases_left_out(const Trial& trial) {
  auto work = std::make_shared<StagedTraining>(trial);
  Stages weights = work->stages;
  for (Stage& stage : weights) std::erase_if(stage.parameters, [](const Tensor& p) { return p.dim() == 1; });
  give_groups(*work, weights, work->decay);
  return with_optimizer(work);
}
}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  // Stated before anything was measured: a point of accuracy on images that nothing was chosen by.
  const Metric unseen{.name = "accuracy", .unit = "%", .better = Better::higher, .margin = 1};
  return run(argc, argv,
             {.title = "Layer-wise rates",
              .question = "Does a rate for each layer fine-tune better than one tuned rate, and what do frozen layers "
                          "save?",
              .workload = convnet_workload,
              .version = 2,
              .settings = {kDecay, kFrozen, kFrozenAbove, kUpdates, kImages, kSourceUpdates},
              .baseline = {"rates by hand", by_hand},
              .techniques = {{"parameter groups", parameter_groups},
                             {"frozen", frozen, predict_frozen},
                             {"scale never applied", scale_never_applied},
                             {"decay from the input", decay_from_the_input},
                             {"biases left out", biases_left_out}},
              .cases = {{"convnet",
                         {},
                         {{"parameter groups", SAME_MEMORY},
                          {"scale never applied", TRAP},
                          {"decay from the input", TRAP},
                          {"biases left out", TRAP}}},
                        {"first layers frozen", {kFrozen(2)}, {{"frozen", {FASTER, SMALLER}}}},
                        // Its gradient must still pass through to the layers below.
                        {"last layer frozen", {kFrozen(1), kFrozenAbove(true)}, {{"frozen", SAME_MEMORY}}}},
              .trainings = {few_images(unseen), many_images(unseen), rates_of_few(unseen), rates_of_many(unseen)},
              .surveys = {{"first layers' bytes", {frozen_bytes("frozen", by_hand, frozen)}, {kFrozen(2)}, true},
                          {"last layer's bytes",
                           {frozen_bytes("frozen", by_hand, frozen)},
                           {kFrozen(1), kFrozenAbove(true)},
                           /*of_memory=*/true}},
              .headline = Headline{"first layers frozen", "frozen"},
              .agreement = Agreement::exact_on_cpu()});
}
