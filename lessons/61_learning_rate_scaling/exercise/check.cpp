#include <gtest/gtest.h>

#include EXERCISE

#include <limits>

namespace {

using torch::Tensor;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// The check, from 1, at which these losses stop training; 0 if none does.
int64_t stopped_at(const std::vector<double>& losses, int64_t patience, double minimum = 0) {
  BestWeights best({torch::ones({2})}, patience, minimum);
  int64_t check = 0;
  for (const double loss : losses) {
    ++check;
    if (best.should_stop(loss)) return check;
  }
  return 0;
}

TEST(Exercise60, StopsAfterPatienceChecksWithoutAnImprovement) {
  EXPECT_EQ(stopped_at({3, 2, 2.5, 2.4, 2.3}, 3), 5) << "hint: three checks in a row were no better than the second";
  EXPECT_EQ(stopped_at({3, 2, 2.5}, 1), 3) << "hint: with patience 1 the first check without an improvement stops";
  EXPECT_EQ(stopped_at({3, 2, 2, 2}, 2), 4) << "hint: an equal loss is no improvement";
}

TEST(Exercise60, AnImprovementBeginsTheCountAgain) {
  EXPECT_EQ(stopped_at({3, 2, 2.5, 2.4, 1.9, 2.5, 2.4}, 3), 0) << "hint: only checks in a row count";
}

TEST(Exercise60, AnImprovementExceedsTheMinimum) {
  EXPECT_EQ(stopped_at({3, 2.75, 2.75}, 2, 0.5), 3) << "hint: lower by 0.25 is no improvement where it takes 0.5";
  EXPECT_EQ(stopped_at({3, 2.75, 2.25, 2, 1.5}, 2, 0.5), 0)
      << "hint: compare with the best loss that counted, not with the last one";
}

TEST(Exercise60, NaNIsNoImprovement) {
  EXPECT_EQ(stopped_at({3, kNaN, kNaN}, 2), 3) << "hint: a training that diverged must end";
  EXPECT_EQ(stopped_at({3, kNaN, 2, 1}, 2), 0) << "hint: NaN must not become the best loss";
}

TEST(Exercise60, TheBestWeightsAreACopy) {
  torch::nn::Linear model(3, 2);
  const torch::NoGradGuard no_gradients;
  BestWeights best(model->parameters(), 5, 0);
  best.should_stop(1);
  const Tensor expected = model->weight.clone();
  model->weight.add_(1);  // training goes on
  best.should_stop(2);
  best.restore();
  EXPECT_TRUE(torch::equal(model->weight, expected))
      << "hint: a copied torch::Tensor names the same numbers; they went on changing";
}

TEST(Exercise60, RestoringWritesIntoTheModel) {
  torch::nn::Linear model(3, 2);
  const torch::NoGradGuard no_gradients;
  BestWeights best(model->parameters(), 5, 0);
  const void* place = model->weight.data_ptr();
  best.should_stop(2);
  model->weight.fill_(0.5);
  best.should_stop(1);
  model->weight.fill_(7);
  best.should_stop(3);
  best.restore();
  EXPECT_TRUE(torch::equal(model->weight, torch::full({2, 3}, 0.5))) << "hint: the best check was the second";
  EXPECT_EQ(model->weight.data_ptr(), place) << "hint: the optimizer holds the model's tensor; write into it";
}

}  // namespace
