// Lesson 61 - Learning-rate scaling
// Which learning rate does a larger batch need, and from which batch on does a larger one no longer help?
// Read noise_measured() first: it measures the gradient's noise while it trains. gradient_noise.h has the formula,
// warmup.h the rate of a larger batch, mup.h that of a wider model; rate_training.h trains with them.
#include "common/harness/lesson.h"
#include "gradient_noise.h"
#include "large_batch.h"
#include "prediction.h"
#include "rate_training.h"
#include "trainings.h"

namespace {
using namespace tenfold;
using torch::Tensor;

/// Without the technique: a large batch in micro-batches, at the rate that a rule gives it.
Step large_batch(const Trial& trial, RateRule rule) {
  auto work = std::make_shared<LargeBatch>(trial, rule);
  return step_of(work, [work] {
    Tensor total = torch::zeros({}, work->device);
    for (int64_t i = 0; i < work->times; ++i) {
      const Tensor loss = work->next_loss() / work->times;
      loss.backward();
      total += loss.detach();
    }
    work->optimizer_step();
    return total;
  });
}

/// With it: each micro-batch's gradient is looked at by itself before it is added to the others'.
Step noise_measured(const Trial& trial) {
  auto work = std::make_shared<LargeBatch>(trial, RateRule::linear);
  auto noise = std::make_shared<GradientNoise>(work->batches.batch(), work->batches.batch() * work->times);
  return step_of(work, [work, noise] {
    Tensor total = torch::zeros({}, work->device),
           squares = torch::zeros({}, at::device(work->device).dtype(at::kDouble));
    for (int64_t i = 0; i < work->times; ++i) {
      const Tensor loss = work->next_loss() / work->times;
      const std::vector<Tensor> own = torch::autograd::grad({loss}, work->weights);
      squares += squared_norm_of(own) * work->times;  // the mean of |times * own|^2
      work->add_to_gradients(own);
      total += loss.detach();
    }
    noise->add(squares, squared_norm_of(work->gradients()));
    work->optimizer_step();
    return total;
  });
}

/// A trap: to have each micro-batch's gradient by itself, they are cleared before each. The update has only the last.
Step cleared_to_measure(const Trial& trial) {
  auto work = std::make_shared<LargeBatch>(trial, RateRule::linear);
  return step_of(work, [work] {
    Tensor total = torch::zeros({}, work->device),
           squares = torch::zeros({}, at::device(work->device).dtype(at::kDouble));
    for (int64_t i = 0; i < work->times; ++i) {
      work->optimizer->zero_grad();  // wrong: the norm is right, and the gradients of the ones before are gone
      const Tensor loss = work->next_loss() / work->times;
      loss.backward();
      squares += squared_norm_of(work->gradients()) * work->times;
      total += loss.detach();
    }
    work->optimizer_step();
    return total;
  });
}

/// What the linear rule rests on: as many updates with the small batch and its rate. They come to the same place as
/// long as the gradient hardly changes on the way.
Step small_updates(const Trial& trial) {
  auto work = std::make_shared<LargeBatch>(trial, RateRule::none);
  auto mean = std::make_shared<std::vector<Tensor>>();
  return step_of(work, [work, mean] {
    Tensor total = torch::zeros({}, work->device);
    mean->clear();
    for (int64_t i = 0; i < work->times; ++i) {
      work->optimizer->zero_grad();
      const Tensor loss = work->next_loss();
      loss.backward();
      work->optimizer_step();
      work->add_to(*mean, work->gradients(), 1.0 / static_cast<double>(work->times));
      total += loss.detach() / work->times;
    }
    work->set_gradients(*mean);  // what all updates together have gone along: the agreement check reads it
    return total;
  });
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tenfold::expect;
  const auto by = [](RateRule rule) { return [rule](const Trial& trial) { return large_batch(trial, rule); }; };
  return run(
      argc, argv,
      {.title = "Learning-rate scaling",
       .question =
           "Which learning rate does a larger batch need, and from which batch on does a larger one no longer help?",
       .workload = mlp_workload,
       .version = 2,
       .settings = {kTimes, kMomentum, kUpdates, kOptimizer, kTarget, kBaseWidth},
       .baseline = {"large batch", by(RateRule::linear)},
       .most_bytes = large_batch_most_bytes,
       .techniques = {{"noise measured", noise_measured, predict_noise},
                      {"cleared to measure", cleared_to_measure},
                      {"small updates", small_updates, predict_small_updates,
                       Agreement::within(0.02, "every small update begins where the one before has moved to")},
                      // Traps: it moves a quarter as far, or half.
                      {"same rate", by(RateRule::none)},
                      {"square root", by(RateRule::square_root)}},
       .cases = {{"mlp", {}, {{"noise measured", SLOWER}, {"cleared to measure", TRAP}}},
                 {"large weights",
                  {mlp::kBatch(8), mlp::kLayers(4), mlp::kWidth(256)},
                  {{"noise measured", {SLOWER, LARGER}}}},
                 {"small rate",
                  with(linear_rule(), mlp::kLearningRate(0.008)),
                  {{"small updates", {}}, {"same rate", TRAP}, {"square root", TRAP}}},
                 // Here the gradient turns within a few updates, and no large one is the same as they are.
                 {"large rate", with(linear_rule(), mlp::kLearningRate(4.0)), {{"small updates", TRAP}}}},
       .trainings = trainings(),
       .surveys = surveys(),
       .headline = Headline{"4 times the batch", "linear, warm-up"}});
}
