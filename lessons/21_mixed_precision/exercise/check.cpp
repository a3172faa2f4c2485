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
  LossScale update(const Tensor& input, LossScale scale) {
    optimizer_.zero_grad();
    ((weights_ * input).sum() * scale.scale).backward();  // the gradient of the weights is the input
    return scaled_update({weights_}, optimizer_, scale, 3);
  }
  Tensor weights_ = torch::ones({4}).requires_grad_();
  torch::optim::SGD optimizer_{{weights_}, 0.5};
};

TEST_F(Exercise21Update, TheUpdateIsThatOfTheLossItself) {
  update(torch::tensor({1.F, 2.F, 3.F, 4.F}), {.scale = 1024});
  EXPECT_TRUE(torch::equal(weights_.detach(), torch::tensor({0.5F, 0.F, -0.5F, -1.F})))
      << "hint: the gradients are 1024 times too large";
}

TEST_F(Exercise21Update, AnInfinityOrNanSkipsTheUpdate) {
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    const LossScale next = update(torch::tensor({1.F, bad, 1.F, 1.F}), {.scale = 8});
    EXPECT_TRUE(torch::equal(weights_.detach(), torch::ones({4}))) << "hint: one bad entry spoils the model for good";
    EXPECT_EQ(next.scale, 4);
  }
}

TEST_F(Exercise21Update, ManyUpdatesAreThoseOfTheLessonsScaler) {
  Tensor weights = torch::ones({4}).requires_grad_();
  torch::optim::SGD optimizer({weights}, 0.5);
  tenfold::GradScaler scaler({.initial_scale = 65536, .growth_interval = 3});
  LossScale scale;
  torch::manual_seed(21);
  for (int i = 0; i < 30; ++i) {
    Tensor input = torch::randn({4});
    if (i % 7 == 2) input[i % 4] = kInfinity;
    optimizer.zero_grad();
    scaler.scale((weights * input).sum()).backward();
    scaler.step(optimizer);
    scaler.update();
    scale = update(input, scale);
    ASSERT_EQ(scale.scale, scaler.current_scale()) << "after update " << i;
    ASSERT_TRUE(torch::allclose(weights_.detach(), weights.detach(), 1e-6)) << "after update " << i;
  }
}

}  // namespace
