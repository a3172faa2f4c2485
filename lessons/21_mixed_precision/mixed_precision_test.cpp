// Autocast as a scope, and GradScaler against Python's torch.amp.GradScaler.
#include <gtest/gtest.h>

#include "autocast.h"
#include "grad_scaler.h"

#include <limits>

#include "tests/support/exchange.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

using test::message_of;
using torch::Tensor;

constexpr int64_t kWidth = 8, kSteps = 40;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A vector of weights whose gradient is the input, so that anything can be planted in it.
struct Plant {
  Tensor weights = torch::ones({kWidth}).requires_grad_();
  torch::optim::SGD optimizer{{weights}, torch::optim::SGDOptions(0.1).momentum(0.9)};

  void backward(GradScaler& scaler, const Tensor& input) {
    optimizer.zero_grad();
    scaler.scale((weights * input).sum()).backward();
  }
  bool update(GradScaler& scaler, const Tensor& input) {
    backward(scaler, input);
    const bool stepped = scaler.step(optimizer);
    scaler.update();
    return stepped;
  }
};

TEST(GradScaler, TheSameAsPythonsStepByStep) {
  if (!parity::python_has_torch()) GTEST_SKIP() << parity::python() << " has no PyTorch";
  torch::manual_seed(1);
  Tensor inputs = torch::randn({kSteps, kWidth});
  for (const int64_t step : {0, 7, 8, 9, 20}) inputs[step][step % kWidth] = step % 2 == 0 ? kInfinity : -kInfinity;
  inputs[25][3] = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t step : {14, 30, 31}) inputs[step] *= 1e35;  // finite; overflows once it is scaled

  Plant plant;
  GradScaler scaler({.initial_scale = 1024, .growth_interval = 3});
  std::vector<float> scales, trackers, stepped;
  for (int64_t step = 0; step < kSteps; ++step) {
    plant.backward(scaler, inputs[step]);
    if (step % 2 == 0) scaler.unscale_(plant.optimizer);
    stepped.push_back(scaler.step(plant.optimizer) ? 1 : 0);
    scaler.update();
    scales.push_back(static_cast<float>(scaler.current_scale()));
    trackers.push_back(static_cast<float>(scaler.state().growth_tracker));
  }
  const parity::Exchange exchange;
  exchange.write("inputs.bin", {inputs});
  ASSERT_EQ(exchange.run("grad_scaler.py"), 0);
  EXPECT_TRUE(torch::equal(torch::tensor(scales), exchange.read("scales.bin")));
  EXPECT_TRUE(torch::equal(torch::tensor(trackers), exchange.read("trackers.bin")));
  EXPECT_TRUE(torch::equal(torch::tensor(stepped), exchange.read("stepped.bin")));
  EXPECT_TRUE(torch::equal(plant.weights.detach(), exchange.read("finish.bin")));
  EXPECT_EQ(scaler.skipped_steps(), kSteps - torch::tensor(stepped).sum().item<int64_t>());
  EXPECT_GE(scaler.skipped_steps(), 6);
}

TEST(GradScaler, UnscalesToTheGradientOfTheLoss) {
  Plant plant;
  GradScaler scaler;
  const Tensor input = torch::arange(kWidth, torch::kFloat) + 1;
  plant.backward(scaler, input);
  EXPECT_TRUE(torch::equal(plant.weights.grad(), 65536 * input));
  scaler.unscale_(plant.optimizer);
  EXPECT_TRUE(torch::equal(plant.weights.grad(), input));
}

// LibTorch's optimizers take a tied parameter under each of its names.
TEST(GradScaler, ATiedParameterIsUnscaledOnce) {
  Plant plant;
  torch::optim::SGD twice({plant.weights, plant.weights}, torch::optim::SGDOptions(0.1));
  GradScaler scaler({.initial_scale = 1024});
  plant.backward(scaler, torch::full({kWidth}, 3.0F));
  scaler.unscale_(twice);
  EXPECT_TRUE(torch::equal(plant.weights.grad(), torch::full({kWidth}, 3.0F)));
}

TEST(GradScaler, SkipsTheStepAndBacksOffThenGrows) {
  Plant plant;
  GradScaler scaler({.initial_scale = 8, .growth_interval = 2});
  EXPECT_FALSE(plant.update(scaler, torch::full({kWidth}, kInfinity)));
  EXPECT_TRUE(torch::equal(plant.weights.detach(), torch::ones({kWidth})));
  EXPECT_EQ(scaler.current_scale(), 4);
  EXPECT_EQ(scaler.skipped_steps(), 1);
  EXPECT_TRUE(plant.update(scaler, torch::ones({kWidth})));
  EXPECT_EQ(scaler.current_scale(), 4);
  EXPECT_TRUE(plant.update(scaler, torch::ones({kWidth})));
  EXPECT_EQ(scaler.current_scale(), 8);
}

// What a training loop without zero_grad() meets: lesson 21 shows what becomes of it.
TEST(GradScaler, GradientsThatAreNeverClearedComeBackAndInfinityStays) {
  Plant plant;
  GradScaler scaler;
  const auto update = [&](const Tensor& input) {
    scaler.scale((plant.weights * input).sum()).backward();
    const bool stepped = scaler.step(plant.optimizer);
    scaler.update();
    return stepped;
  };
  const Tensor ones = torch::ones({kWidth});
  EXPECT_TRUE(update(ones));
  EXPECT_TRUE(update(ones));
  EXPECT_TRUE(torch::equal(plant.weights.grad(), ones + 1.0 / 65536)) << "the first update's, divided once more";
  EXPECT_FALSE(update(torch::full({kWidth}, kInfinity)));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(update(ones)) << "infinity divided is infinity";
  plant.optimizer.zero_grad();
  EXPECT_TRUE(update(ones));
}

TEST(GradScaler, OneBadOptimizerBacksOffForAll) {
  Plant good, bad;
  GradScaler scaler({.initial_scale = 8});
  good.backward(scaler, torch::ones({kWidth}));
  bad.backward(scaler, torch::full({kWidth}, kInfinity));
  EXPECT_TRUE(scaler.step(good.optimizer));
  EXPECT_FALSE(scaler.step(bad.optimizer));
  scaler.update();
  EXPECT_EQ(scaler.current_scale(), 4);
}

// What an all-reduce by MAX does on the rank whose own gradients are finite.
TEST(GradScaler, AnInfinityOfAnotherRankSkipsTheStepAndBacksOff) {
  for (const bool other_rank_has_it : {false, true}) {
    Plant plant;
    GradScaler scaler({.initial_scale = 8});
    plant.backward(scaler, torch::ones({kWidth}));
    scaler.unscale_(plant.optimizer);
    Tensor infinity = scaler.found_infinity(plant.optimizer);
    EXPECT_EQ(infinity.dim(), 0);
    EXPECT_EQ(infinity.item<float>(), 0);
    if (other_rank_has_it) infinity.fill_(1);
    EXPECT_EQ(scaler.step(plant.optimizer), !other_rank_has_it);
    EXPECT_EQ(torch::equal(plant.weights.detach(), torch::ones({kWidth})), other_rank_has_it);
    scaler.update();
    EXPECT_EQ(scaler.current_scale(), other_rank_has_it ? 4 : 8);
    EXPECT_EQ(scaler.skipped_steps(), other_rank_has_it ? 1 : 0);
  }
}

TEST(GradScaler, FoundInfinityIsOfAllTypesOfGradients) {
  const Tensor first = torch::ones({2}).requires_grad_(), second = torch::ones({2}, torch::kDouble).requires_grad_();
  torch::optim::SGD optimizer(std::vector<Tensor>{first, second}, 0.1);
  GradScaler scaler({.initial_scale = 8});
  scaler.scale((first * kInfinity).sum() + second.sum()).backward();
  EXPECT_NE(message_of<c10::Error>([&] { scaler.found_infinity(optimizer); }).find("between unscale_() and step()"),
            std::string::npos);
  scaler.unscale_(optimizer);
  EXPECT_GT(scaler.found_infinity(optimizer).item<float>(), 0);
  EXPECT_FALSE(scaler.step(optimizer));
  EXPECT_NE(message_of<c10::Error>([&] { scaler.found_infinity(optimizer); }).find("between unscale_() and step()"),
            std::string::npos);
}

// An expert that got no token, say: its rank must not leave the others waiting in their all-reduce.
TEST(GradScaler, ARankWithoutGradientsJoins) {
  Plant plant;
  GradScaler scaler({.initial_scale = 8});
  scaler.scale(torch::zeros({}));
  scaler.unscale_(plant.optimizer);
  scaler.found_infinity(plant.optimizer).fill_(1);
  EXPECT_FALSE(scaler.step(plant.optimizer));
  scaler.update();
  EXPECT_EQ(scaler.current_scale(), 4);
}

TEST(GradScaler, ContinuesFromASavedState) {
  Plant plant, resumed;
  GradScaler scaler({.initial_scale = 8, .growth_interval = 3});
  plant.update(scaler, torch::full({kWidth}, kInfinity));
  for (int i = 0; i < 2; ++i) plant.update(scaler, torch::ones({kWidth}));
  GradScaler other;
  other.load(scaler.state());
  EXPECT_EQ(other.current_scale(), 4);
  EXPECT_EQ(other.skipped_steps(), 1);
  resumed.update(other, torch::ones({kWidth}));  // the third in a row
  EXPECT_EQ(other.current_scale(), 8);
}

TEST(GradScaler, MisuseIsNamed) {
  Plant plant;
  GradScaler scaler;
  EXPECT_NE(message_of<c10::Error>([&] { scaler.step(plant.optimizer); }).find("step() before scale(loss)"),
            std::string::npos);
  EXPECT_NE(message_of<c10::Error>([&] { scaler.update(); }).find("update() before scale(loss)"), std::string::npos);
  plant.backward(scaler, torch::ones({kWidth}));
  EXPECT_NE(message_of<c10::Error>([&] { scaler.update(); }).find("without a step()"), std::string::npos);
  scaler.unscale_(plant.optimizer);
  EXPECT_NE(message_of<c10::Error>([&] { scaler.unscale_(plant.optimizer); }).find("already called"),
            std::string::npos);
  scaler.step(plant.optimizer);
  EXPECT_NE(message_of<c10::Error>([&] { scaler.step(plant.optimizer); }).find("already called"), std::string::npos);
  EXPECT_NE(message_of<c10::Error>([&] { scaler.unscale_(plant.optimizer); }).find("after step()"), std::string::npos);
  EXPECT_NE(message_of<c10::Error>([&] { scaler.load({}); }).find("between step() and update()"), std::string::npos);
  scaler.update();
  plant.optimizer.zero_grad();
  EXPECT_NE(message_of<c10::Error>([&] { scaler.step(plant.optimizer); }).find("no gradient"), std::string::npos);
  EXPECT_NE(message_of<c10::Error>([] { GradScaler({.growth_factor = 1}); }).find("growth_factor=1"),
            std::string::npos);
  EXPECT_NE(message_of<c10::Error>([] { GradScaler({.backoff_factor = 1}); }).find("backoff_factor=1"),
            std::string::npos);

  Plant half;
  half.weights = torch::ones({kWidth}, torch::kHalf).requires_grad_();
  torch::optim::SGD optimizer({half.weights}, 0.1);
  scaler.scale(half.weights.to(torch::kFloat).sum()).backward();
  EXPECT_NE(message_of<c10::Error>([&] { scaler.unscale_(optimizer); }).find("fp16 gradient"), std::string::npos);
}

TEST(Autocast, ProductsRunIn16BitsAndParametersKeepTheirType) {
  torch::nn::Linear layer(4, 4);
  const Tensor input = torch::ones({2, 4});
  {
    const Autocast scope(at::kCPU, torch::kBFloat16);
    const Tensor output = layer(input);
    EXPECT_EQ(output.scalar_type(), torch::kBFloat16);
    output.sum().backward();
  }
  EXPECT_EQ(layer(input).scalar_type(), torch::kFloat);
  EXPECT_EQ(layer->weight.scalar_type(), torch::kFloat);
  EXPECT_EQ(layer->weight.grad().scalar_type(), torch::kFloat);
}

TEST(Autocast, NestsAndPutsTheStateBack) {
  const auto before = at::autocast::get_autocast_dtype(at::kCPU);
  {
    const Autocast outer(at::kCPU, torch::kHalf);
    {
      const Autocast inner(at::kCPU, torch::kBFloat16, /*enabled=*/false);
      EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
    }
    EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
    EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), torch::kHalf);
  }
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), before);
  EXPECT_NE(message_of<c10::Error>([] { const Autocast scope(at::kCPU, torch::kDouble); }).find("not supported"),
            std::string::npos);
}

TEST(Autocast, AWeightsCopyDoesNotOutliveTheScope) {
  torch::nn::Linear layer(4, 4);
  const Tensor input = torch::ones({2, 4});
  const auto output = [&] {
    const Autocast scope(at::kCPU, torch::kBFloat16);
    return layer(input).detach().clone();
  };
  const Tensor before = output();
  {
    const torch::NoGradGuard no_grad;
    layer->weight.add_(1);
  }
  EXPECT_FALSE(torch::equal(before, output()));
}

TEST(AutocastInput, IsTheCopyThatALinearLayerTakes) {
  const Tensor weight = torch::rand({4, 4}).requires_grad_(), ids = torch::arange(4);
  EXPECT_TRUE(autocast_input(weight).is_same(weight)) << "autocast is off";
  {
    const Autocast scope(at::kCPU, torch::kBFloat16);
    const Tensor copy = autocast_input(weight);
    EXPECT_EQ(copy.scalar_type(), torch::kBFloat16);
    EXPECT_TRUE(autocast_input(weight).is_same(copy)) << "from the cache, as the layer's";
    EXPECT_TRUE(autocast_input(ids).is_same(ids));
    EXPECT_EQ(autocast_input(weight.detach().to(torch::kDouble)).scalar_type(), torch::kDouble);
    copy.sum().backward();
    const Autocast off(at::kCPU, torch::kBFloat16, /*enabled=*/false);
    EXPECT_TRUE(autocast_input(weight).is_same(weight));
  }
  EXPECT_TRUE(torch::equal(weight.grad(), torch::ones({4, 4}))) << "in the weight's type";
}

}  // namespace
}  // namespace tenfold
