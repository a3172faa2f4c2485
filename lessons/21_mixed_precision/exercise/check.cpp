#include <gtest/gtest.h>

#include EXERCISE

#include "lessons/21_mixed_precision/grad_scaler.h"

#include <limits>

namespace {

using torch::Tensor;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Exercise21, TheScaleHalvesAfterAnInfinity) {
  const LossScale next = next_scale({.scale = 1024, .good_updates = 5}, true, 10);
  EXPECT_EQ(next.scale, 512) << "hint: the scale was too large";
  EXPECT_EQ(next.good_updates, 0) << "hint: the updates must be good in a row";
}

TEST(Exercise21, TheScaleDoublesAfterTheInterval) {
  LossScale scale{.scale = 4};
  for (int i = 0; i < 2; ++i) scale = next_scale(scale, false, 3);
  EXPECT_EQ(scale.scale, 4) << "hint: two good updates are not three";
  EXPECT_EQ(scale.good_updates, 2) << "hint: count the good updates";
  scale = next_scale(scale, false, 3);
  EXPECT_EQ(scale.scale, 8) << "hint: the third good update completes the interval";
  EXPECT_EQ(scale.good_updates, 0) << "hint: the count starts again";
}

class Exercise21Update : public testing::Test {
 protected:
  /// The gradient of the weights is the input, that of the bias is `slope`, and the unused parameter has none.
  LossScale update(const Tensor& input, float slope, LossScale scale) {
    optimizer_.zero_grad();
    (((weights_ * input).sum() + bias_ * slope) * scale.scale).backward();
    return scaled_update({weights_, unused_, bias_}, optimizer_, scale, 3);
  }
  Tensor weights_ = torch::ones({4}).requires_grad_(), bias_ = torch::zeros({}).requires_grad_();
  Tensor unused_ = torch::ones({2}).requires_grad_();
  torch::optim::SGD optimizer_{{weights_, unused_, bias_}, 0.5};
};

TEST_F(Exercise21Update, TheUpdateIsThatOfTheLossItself) {
  update(torch::tensor({1.F, 2.F, 3.F, 4.F}), 2, {.scale = 1024});
  EXPECT_TRUE(torch::equal(weights_.detach(), torch::tensor({0.5F, 0.F, -0.5F, -1.F})))
      << "hint: the gradients are 1024 times too large";
  EXPECT_EQ(bias_.item<float>(), -1) << "hint: so are those of the other parameters";
}

TEST_F(Exercise21Update, AnInfinityOrNanSkipsTheUpdate) {
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (const bool in_weights : {true, false}) {
      const LossScale next =
          update(torch::tensor({1.F, in_weights ? bad : 1.F, 1.F, 1.F}), in_weights ? 1 : bad, {.scale = 8});
      EXPECT_TRUE(torch::equal(weights_.detach(), torch::ones({4})) && bias_.item<float>() == 0)
          << "hint: one bad entry in the " << (in_weights ? "first" : "last")
          << " parameter spoils the model for good: none of them may be updated";
      EXPECT_EQ(next.scale, 4) << "hint: a bad entry in any of the parameters halves the scale";
    }
  }
}

TEST_F(Exercise21Update, ManyUpdatesAreThoseOfTheLessonsScaler) {
  Tensor weights = torch::ones({4}).requires_grad_(), bias = torch::zeros({}).requires_grad_();
  torch::optim::SGD optimizer({weights, bias}, 0.5);
  tenfold::GradScaler scaler({.initial_scale = 65536, .growth_interval = 3});
  LossScale scale;
  torch::manual_seed(21);
  for (int i = 0; i < 30; ++i) {
    Tensor input = torch::randn({4});
    if (i % 7 == 2) input[i % 4] = kInfinity;
    const float slope = i % 11 == 5 ? kInfinity : 0.25F * static_cast<float>(i);
    optimizer.zero_grad();
    scaler.scale((weights * input).sum() + bias * slope).backward();
    scaler.step(optimizer);
    scaler.update();
    scale = update(input, slope, scale);
    ASSERT_EQ(scale.scale, scaler.current_scale()) << "after update " << i;
    ASSERT_TRUE(torch::allclose(weights_.detach(), weights.detach(), 1e-6)) << "after update " << i;
    ASSERT_TRUE(torch::allclose(bias_.detach(), bias.detach(), 1e-6)) << "after update " << i;
  }
}

}  // namespace
