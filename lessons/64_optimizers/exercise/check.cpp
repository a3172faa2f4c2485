#include <gtest/gtest.h>

#include EXERCISE

#include <vector>

#include "lessons/64_optimizers/muon.h"

namespace {

using torch::Tensor;

Tensor random_matrix(int64_t rows, int64_t columns) {
  torch::manual_seed(64);
  return torch::randn({rows, columns});
}

TEST(Exercise64, SingularValuesComeNearOne) {
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{32, 64}, {64, 32}}) {
    const Tensor values = torch::linalg_svdvals(orthogonalised(random_matrix(rows, columns)), c10::nullopt);
    ASSERT_GE(values.min().item<double>(), 0.6)
        << "hint: a matrix divided by its norm keeps small singular values small: take it five times through "
           "a x + b (x x') x + c (x x') (x x') x";
    ASSERT_LE(values.max().item<double>(), 1.3);
  }
}

TEST(Exercise64, TheSizeOfTheGradientDoesNotMatter) {
  const Tensor matrix = random_matrix(16, 24);
  for (const double size : {1e-4, 1e4}) {
    const double off = (orthogonalised(size * matrix) - orthogonalised(matrix)).abs().max().item<double>();
    ASSERT_LE(off, 1e-3) << "hint: divide by the norm of the whole matrix first: the polynomial diverges from singular "
                            "values above about 1.2, and five steps do not lift tiny ones";
  }
}

TEST(Exercise64, ZerosStayZeros) {
  ASSERT_EQ(orthogonalised(torch::zeros({3, 5})).abs().max().item<double>(), 0)
      << "hint: a matrix of zeros has a norm of zero: bound the norm from below by 1e-7";
}

TEST(Exercise64, TheMomentumIsAnAverageOfGradients) {
  Tensor weight = torch::zeros({4, 4}), momentum = torch::zeros({4, 4});
  for (int step = 0; step < 200; ++step) muon_update(weight, torch::ones({4, 4}), momentum, {});
  ASSERT_NEAR(momentum.mean().item<double>(), 1, 1e-3)
      << "hint: momentum * average + (1 - momentum) * gradient: of equal gradients the average is the gradient";
}

TEST(Exercise64, AStepGoesDownhill) {
  Tensor weight = torch::zeros({6, 6}), momentum = torch::zeros({6, 6});
  const Tensor gradient = random_matrix(6, 6);
  muon_update(weight, gradient, momentum, {});
  ASSERT_LT((weight * gradient).sum().item<double>(), 0) << "hint: subtract the update from the weight";
}

TEST(Exercise64, WeightDecayTakesRateTimesDecay) {
  Tensor weight = torch::ones({64, 4}), momentum = torch::zeros({64, 4});
  muon_update(weight, torch::zeros({64, 4}), momentum, {.rate = 0.1, .weight_decay = 0.5});
  ASSERT_NEAR(weight.mean().item<double>(), 0.95, 1e-6)
      << "hint: the weight itself shrinks by the factor 1 - rate * weight_decay, whatever its shape";
}

TEST(Exercise64, UpdatesAreTheLessons) {
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{12, 12}, {8, 32}, {32, 8}}) {
    const Tensor start = random_matrix(rows, columns);
    Tensor weight = start.clone(), momentum = torch::zeros_like(start), theirs = start.clone().requires_grad_();
    tenfold::Muon optimizer({theirs}, tenfold::MuonOptions(0.02).weight_decay(0.1));
    for (int step = 0; step < 5; ++step) {
      const Tensor gradient = torch::randn_like(start);
      muon_update(weight, gradient, momentum, {});
      theirs.mutable_grad() = gradient;
      optimizer.step();
    }
    // The lesson's rounds to bf16, this does not.
    const double off = ((weight - theirs).norm() / (theirs - start).norm()).item<double>();
    ASSERT_LE(off, 0.03) << "hint: two parts are easily forgotten: Nesterov's look ahead, momentum * average + "
                            "(1 - momentum) * gradient, and the factor sqrt(max(1, rows / columns))";
  }
}

}  // namespace
