// Stages, groups, schedules and freezing, against updates written out; and the fine-tuning that uses them.
#include <gtest/gtest.h>

#include "fine_tuning.h"
#include "layerwise_rates.h"
#include "prediction.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/support.h"

namespace tenfold {
namespace {

using torch::Tensor;

Stages stages_of_net(ConvNet& net) { return stages_of(net->named_parameters(), stage_names()); }

TEST(Stages, HaveEachParameterOnce) {
  ConvNet net(ConvNetOptions{.channels = 4});
  const Stages stages = stages_of_net(net);
  ASSERT_EQ(stages.size(), 3U);
  std::vector<const void*> seen;
  for (const Stage& stage : stages) {
    EXPECT_EQ(stage.parameters.size(), 2U) << stage.prefix;
    for (const Tensor& parameter : stage.parameters) seen.push_back(parameter.unsafeGetTensorImpl());
  }
  std::ranges::sort(seen);
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
  EXPECT_EQ(stages[0].parameters[0].unsafeGetTensorImpl(), net->conv1->weight.unsafeGetTensorImpl());
}

TEST(Stages, ReadWholeNamesOnly) {
  EXPECT_TRUE(belongs_to("blocks.1.norm.weight", "blocks.1"));
  EXPECT_TRUE(belongs_to("scale", "scale"));
  EXPECT_FALSE(belongs_to("blocks.10.norm.weight", "blocks.1"));
  EXPECT_FALSE(belongs_to("head", "head.weight"));
}

TEST(Stages, RefuseWithTheNameOfTheParameter) {
  ConvNet net(ConvNetOptions{.channels = 4});
  const auto refusal = [&](const std::vector<std::string>& prefixes) {
    return test::message_of<c10::ValueError>([&] { stages_of(net->named_parameters(), prefixes); });
  };
  const auto has = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  has(refusal({"conv1", "conv2"}), "head.weight belongs to no stage; it would never train");
  has(refusal({"conv1", "conv2", "head", "head.bias"}), "head.bias belongs to both head and head.bias");
  has(refusal({"conv1", "conv2", "conv3", "head"}), "no parameter belongs to stage conv3");
  auto tied = net->named_parameters();
  tied.insert("tail.weight", net->head->weight);
  has(test::message_of<c10::ValueError>([&] { stages_of(tied, {"conv1", "conv2", "head", "tail"}); }),
      "tail.weight is the tensor of head.weight");
}

/// Parameters after some updates with gradients that are known: of stage i all are i + 1 in the first and 1 in the
/// others.
template <class Optimizer>
std::vector<double> after(Optimizer& optimizer, const Stages& stages, int updates, auto before) {
  for (int update = 0; update < updates; ++update) {
    before(update);
    for (size_t i = 0; i < stages.size(); ++i)
      for (Tensor parameter : stages[i].parameters)
        if (parameter.requires_grad())
          parameter.mutable_grad() = torch::full_like(parameter, update == 0 ? static_cast<double>(i + 1) : 1.0);
    optimizer.step();
  }
  std::vector<double> values;
  for (const Stage& stage : stages) values.push_back(stage.parameters[0].item<double>());
  return values;
}
Stages three_numbers() {
  Stages stages;
  for (const char* name : {"a", "b", "c"})
    stages.push_back({name, {torch::zeros({}, torch::kDouble).requires_grad_()}});
  return stages;
}

TEST(Groups, AreUpdatedAsByHand) {
  const Stages stages = three_numbers();
  const auto base = torch::optim::SGDOptions(0.8).momentum(0.5);
  torch::optim::SGD optimizer(layerwise_groups(stages, base, 0.25), base);
  const std::vector<double> values = after(optimizer, stages, 2, [](int) {});
  // Momentum: first g, then g / 2 + 1. Rates: 0.05, 0.2, 0.8.
  EXPECT_NEAR(values[0], -0.05 * (1 + 1.5), 1e-15);
  EXPECT_NEAR(values[1], -0.2 * (2 + 2), 1e-15);
  EXPECT_NEAR(values[2], -0.8 * (3 + 2.5), 1e-15);
}

TEST(Groups, KeepAllOtherOptions) {
  const Stages stages = three_numbers();
  torch::optim::AdamW optimizer(
      layerwise_groups(stages, torch::optim::AdamWOptions(0.01).weight_decay(0.3).betas({0.5, 0.6}), 0.5));
  for (const auto& group : optimizer.param_groups()) {
    const auto& options = static_cast<const torch::optim::AdamWOptions&>(group.options());
    EXPECT_EQ(options.weight_decay(), 0.3);
    EXPECT_EQ(options.betas(), std::make_tuple(0.5, 0.6));
  }
  EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.0025);
  // The first step of AdamW moves a weight of 0 by its rate, whatever the gradient.
  const std::vector<double> values = after(optimizer, stages, 1, [](int) {});
  EXPECT_NEAR(values[0], -0.0025, 1e-9);
  EXPECT_NEAR(values[2], -0.01, 1e-9);
}

TEST(Groups, RefuseADecayThatIsNone) {
  const Stages stages = three_numbers();
  for (const double decay : {0.0, -1.0, 1.5, std::nan("")})
    EXPECT_THROW(layerwise_groups(stages, torch::optim::SGDOptions(0.1), decay), c10::ValueError) << decay;
}

TEST(RateSchedule, KeepsTheRatiosOfTheRates) {
  const Stages stages = three_numbers();
  const auto base = torch::optim::SGDOptions(1);
  torch::optim::SGD optimizer(layerwise_groups(stages, base, 0.5), base);
  RateSchedule schedule(optimizer);
  const std::vector<double> values =
      after(optimizer, stages, 2, [&](int update) { schedule.scale(update == 0 ? 0.1 : 0.01); });
  EXPECT_NEAR(values[0], -0.25 * (0.1 * 1 + 0.01), 1e-15) << "factors are not multiplied with each other";
  EXPECT_NEAR(values[2], -1.0 * (0.1 * 3 + 0.01), 1e-15);
  optimizer.add_param_group({{torch::zeros({})}});
  EXPECT_THROW(schedule.scale(1), c10::Error);
}

TEST(Freezing, LetsGoOfGradientsAndMomentumMovesNothing) {
  const Stages stages = three_numbers();
  const auto base = torch::optim::SGDOptions(1).momentum(0.5);
  torch::optim::SGD optimizer(layerwise_groups(stages, base, 1), base);
  const std::vector<double> values = after(optimizer, stages, 4, [&](int update) {
    if (update == 1) EXPECT_EQ(unfreeze_last(stages, 2), 2);
  });
  EXPECT_EQ(values[0], -1) << "its momentum moved it on";
  EXPECT_FALSE(stages[0].parameters[0].grad().defined());
  EXPECT_LT(values[1], -2);
  EXPECT_EQ(trained_bytes(stages), 2 * 8);
}

TEST(Freezing, UnfreezesFromTheOutput) {
  const Stages stages = three_numbers();
  EXPECT_EQ(unfreeze_last(stages, 1), 1);
  EXPECT_FALSE(stages[0].parameters[0].requires_grad());
  EXPECT_FALSE(stages[1].parameters[0].requires_grad());
  EXPECT_TRUE(stages[2].parameters[0].requires_grad());
  EXPECT_EQ(unfreeze_last(stages, 7), 3);
  EXPECT_TRUE(stages[0].parameters[0].requires_grad());
  EXPECT_EQ(unfreeze_last(stages, -1), 0);
}

TEST(Freezing, MakesNoOptimizerState) {
  ConvNet net(ConvNetOptions{.channels = 4});
  const Stages stages = stages_of_net(net);
  const auto base = torch::optim::SGDOptions(0.1).momentum(0.9);
  torch::optim::SGD optimizer(layerwise_groups(stages, base, 0.5), base);
  unfreeze_last(stages, 1);
  torch::cross_entropy_loss(net(torch::randn({2, 1, 28, 28})), torch::zeros({2}, torch::kLong)).backward();
  optimizer.step();
  EXPECT_EQ(optimizer.state().size(), 2U) << "the head's weight and bias";
  EXPECT_EQ(trained_bytes(stages), stage_bytes(2, 4));
}

TEST(Prediction, CountsTheWorkOfBackward) {
  // Both gradients of all stages but the first, which needs none of its input.
  const double c1 = stage_work(0, 8), c2 = stage_work(1, 8), head = stage_work(2, 8);
  EXPECT_EQ(c1, 8 * 9 * 784);
  EXPECT_EQ(c2, 16 * 8 * 9 * 196);
  EXPECT_EQ(head, 16 * 49 * 10);
  EXPECT_EQ(backward_work(8, 0, false), c1 + 2 * c2 + 2 * head);
  EXPECT_EQ(backward_work(8, 1, false), c2 + 2 * head);
  EXPECT_EQ(backward_work(8, 2, false), head);
  EXPECT_EQ(backward_work(8, 1, true), c1 + 2 * c2 + head) << "the gradient passes through what is frozen";
}

TEST(Prediction, CountsBytesAsTheModelHasThem) {
  ConvNet net(ConvNetOptions{.channels = 8});
  int64_t bytes = 0;
  for (const Tensor& parameter : net->parameters()) bytes += static_cast<int64_t>(parameter.nbytes());
  EXPECT_EQ(stage_bytes(0, 8) + stage_bytes(1, 8) + stage_bytes(2, 8), bytes);
}

Trial small_trial() {
  auto record = std::make_shared<TrialRecord>();
  record->given = {{"images", int64_t{40}},
                   {"batch", int64_t{8}},
                   {"channels", int64_t{8}},
                   {"updates", int64_t{2}},
                   {"source_updates", int64_t{1}}};
  Trial trial(record);
  trial.seed = 3;
  return trial;
}

TEST(FineTuning, HasOtherClassesThanTheFirstTraining) {
  const Trial trial = small_trial();
  const ImageSet& odd = half_of_classes(trial, true, true);
  const ImageSet& even = half_of_classes(trial, true, false);
  EXPECT_EQ(odd.size(), 30000);
  EXPECT_EQ(even.size(), 30000);
  const ImageSet all = fashion_mnist(true);
  for (const ImageSet* half : {&odd, &even}) {
    EXPECT_EQ(half->labels.min().item<int64_t>(), 0);
    EXPECT_EQ(half->labels.max().item<int64_t>(), 4);
  }
  EXPECT_TRUE(torch::equal(even.images[0], all.images[1])) << "the second image is the first of an even class";
}

TEST(FineTuning, RunsEachWay) {
  const Trial trial = small_trial();
  for (const Way& way :
       {Way{}, Way{.decay = 0.5}, Way{.gradual = true}, Way{.trained = 1}, Way{.from_scratch = true}}) {
    torch::manual_seed(2);
    const Learned learned = fine_tune(trial, way);
    EXPECT_EQ(learned.curve.quality.size(), 2U);
    EXPECT_EQ(learned.curve.items, 2 * 8);
  }
}

TEST(FineTuning, TheFirstTrainingDrawsNoNumbersOfOthers) {
  const Trial trial = small_trial();
  torch::manual_seed(9);
  source_model(trial);
  const Tensor then = torch::rand({3});
  torch::manual_seed(9);
  EXPECT_TRUE(torch::equal(torch::rand({3}), then));
}

}  // namespace
}  // namespace tenfold
