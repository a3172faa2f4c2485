// The composed step against the plain one, stack by stack, and the formula against what is counted.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "bytes_by_formula.h"
#include "fit_training.h"
#include "surveys.h"

namespace tenfold {
namespace {

using torch::Tensor;

/// Wide enough for averages of 8 bits, small enough for a moment.
Trial tiny(const std::vector<Assignment>& others = {}) {
  at::set_num_threads(1);  // as in the lesson; threads that wait for each other take long on a busy machine
  auto record = std::make_shared<TrialRecord>();
  for (const auto& setting :
       {gpt::kLayers(2), gpt::kWidth(64), gpt::kHeads(4), gpt::kLength(16), gpt::kBatch(4), kMicroBatches(2)})
    record->given[setting.name] = setting.value.cpu;
  for (const auto& setting : others) record->given[setting.name] = setting.value.cpu;
  Trial trial(record);
  trial.seed = 92;
  trial.workload = gpt_workload;
  return trial;
}

struct Trained {
  std::vector<double> losses;
  std::vector<Tensor> gradients;  ///< of the first update
  std::vector<Tensor> parameters;
};

Trained train(const Trial& trial, const Levers& levers, int updates = 3) {
  torch::manual_seed(trial.seed);
  FitTraining training(trial, gpt_options(trial), levers);
  Trained trained;
  for (int update = 0; update < updates; ++update) {
    trained.losses.push_back(training.update().item<double>());
    if (update > 0) continue;
    for (const Tensor& parameter : training.parameter_list()) trained.gradients.push_back(parameter.grad().clone());
  }
  for (const Tensor& parameter : training.parameter_list()) trained.parameters.push_back(parameter.detach().clone());
  return trained;
}

/// The largest distance of two tensors of the lists, over the second one's norm.
double distance(const std::vector<Tensor>& these, const std::vector<Tensor>& those) {
  double largest = 0;
  for (size_t i = 0; i < those.size(); ++i)
    largest = std::max(largest, ((these[i] - those[i]).norm() / (those[i].norm() + 1e-12)).item<double>());
  return largest;
}

TEST(FitTraining, GradientsAreThoseOfTheWholeBatch) {
  const Trained plain = train(tiny(), {}, 1);
  // Sums of some hundred products in another order, each rounded to 2^-24.
  for (const size_t count : {2U, 3U, 4U})
    EXPECT_LT(distance(train(tiny(), in_32_bits(count), 1).gradients, plain.gradients), 1e-5) << count;
}

TEST(FitTraining, CheckpointingChangesNoBit) {
  const Trained before = train(tiny(), in_32_bits(3)), with = train(tiny(), in_32_bits(4));
  EXPECT_EQ(distance(with.parameters, before.parameters), 0);
  EXPECT_EQ(with.losses, before.losses);
}

TEST(FitTraining, OnTheHostAdamWIsTheSame) {
  Levers levers = in_32_bits(4);
  const Trained on_the_device = train(tiny(), levers);
  levers.averages_on_host = true;
  const Trained on_the_host = train(tiny(), levers);
  EXPECT_EQ(distance(on_the_host.gradients, on_the_device.gradients), 0) << "of all micro-batches, and each once";
  // ATen's one operator rounds in another place than operator by operator.
  EXPECT_LT(distance(on_the_host.parameters, on_the_device.parameters), 1e-5);
}

TEST(FitTraining, EveryStackLearnsTheSame) {
  const Trained plain = train(tiny(), {});
  for (const Stack& stack : all_stacks()) {
    const Trained with = train(tiny(), stack_of(stack.count));
    for (size_t update = 0; update < plain.losses.size(); ++update) {
      // bf16 has 8 significant bits; a loss is a mean of many such roundings.
      EXPECT_NEAR(with.losses[update], plain.losses[update], 5e-3 * plain.losses[update]) << stack.name;
    }
  }
}

TEST(FitTraining, ABatchThatDoesNotDivideIsRefused) {
  EXPECT_THROW(FitTraining(tiny({kMicroBatches(3)}), gpt_options(tiny()), stack_of(3)), c10::ValueError);
}

TEST(StepBytes, TheFormulaIsWhatIsCounted) {
  for (const auto& sizes : {std::vector<Assignment>{}, {gpt::kLayers(5)}, {gpt::kWidth(128), gpt::kLength(8)}}) {
    const Trial trial = tiny(sizes);
    trial.workload.make(trial);
    for (const Stack& stack : all_stacks()) {
      // How a CPU multiplies numbers of 16 bits, and what it needs for that, depends on its instructions.
      const Levers levers = in_32_bits(stack.count);
      const auto counted = static_cast<double>(counted_update(trial, gpt_options(trial), levers).peak_bytes);
      const StepBytes formula(step_sizes(trial), levers);
      EXPECT_NEAR(counted / static_cast<double>(formula.peak().total()), 1, 0.01) << stack.name;
    }
  }
}

TEST(StepBytes, ABudgetEndsTheStepThatNeedsMore) {
  const Trial trial = tiny();
  trial.workload.make(trial);
  const int64_t needs = StepBytes(step_sizes(trial), {}).peak().total();
  // malloc rounds blocks up by a few bytes each.
  EXPECT_FALSE(pass_that_exceeds(trial, gpt_options(trial), {}, needs * 102 / 100).has_value());
  EXPECT_TRUE(pass_that_exceeds(trial, gpt_options(trial), {}, needs * 98 / 100).has_value());
}

TEST(LargestModel, IsTheLastThatFits) {
  StepSizes sizes = step_sizes(tiny());
  const int64_t bytes = int64_t{3} << 20, layers = layers_by_formula(sizes, in_32_bits(5), bytes);
  ASSERT_GT(layers, 1);
  sizes.model.layers = layers;
  EXPECT_LE(StepBytes(sizes, in_32_bits(5)).peak().total(), bytes);
  sizes.model.layers = layers + 1;
  EXPECT_GT(StepBytes(sizes, in_32_bits(5)).peak().total(), bytes);
  EXPECT_EQ(layers_by_formula(sizes, {}, 1000), 0);
}

}  // namespace
}  // namespace tenfold
