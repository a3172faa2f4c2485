#include <gtest/gtest.h>

#include EXERCISE

#include <cmath>

namespace {

using torch::Tensor;

/// By its definition, in 64 bits and without kl_div.
double by_definition(const Tensor& student, const Tensor& teacher, double temperature) {
  const Tensor s = (student.detach().to(torch::kDouble) / temperature).exp();
  const Tensor t = (teacher.detach().to(torch::kDouble) / temperature).exp();
  const Tensor q = s / s.sum(1, true), p = t / t.sum(1, true);
  const auto rows = static_cast<double>(student.size(0));
  return (p * (p / q).log()).sum().item<double>() * temperature * temperature / rows;
}

TEST(Exercise63, TheLossIsSummedOverClassesAndAveragedOverRows) {
  torch::manual_seed(1);
  const Tensor student = torch::randn({6, 10}), teacher = 2 * torch::randn({6, 10});
  EXPECT_NEAR(soft_target_loss(student, teacher, 1).item<double>(), by_definition(student, teacher, 1), 1e-5)
      << "hint: a sum over the classes, a mean over the rows alone, and the teacher's probabilities come first in KL";
}

TEST(Exercise63, TheTemperatureComesWithItsSquare) {
  torch::manual_seed(2);
  const Tensor student = torch::randn({5, 10}), teacher = 2 * torch::randn({5, 10});
  EXPECT_NEAR(soft_target_loss(student, teacher, 4).item<double>(), by_definition(student, teacher, 4), 1e-5)
      << "hint: both logits are divided by the temperature, and its square makes up for what the gradient loses";
}

TEST(Exercise63, TheGradientDoesNotFadeWithTheTemperature) {
  torch::manual_seed(3);
  const Tensor teacher = torch::randn({8, 10});
  const auto norm_at = [&](double temperature) {
    const Tensor student = torch::zeros({8, 10}).requires_grad_();
    soft_target_loss(student, teacher, temperature).backward();
    return student.grad().norm().item<double>();
  };
  EXPECT_GT(norm_at(50) / norm_at(5), 0.7) << "hint: without the square it is a hundredth";
}

TEST(Exercise63, AnswersAreFoundByTheirNumbers) {
  const Tensor logits = torch::arange(24, torch::kFloat).view({8, 3});
  const Tensor order = torch::tensor({6, 1, 7, 0, 3, 2, 5, 4}, torch::kLong);
  KeptAnswers kept(8, 3);
  for (const int64_t from : {0, 4}) {
    const Tensor ids = order.slice(0, from, from + 4);
    kept.keep(ids, logits.index_select(0, ids));
  }
  EXPECT_TRUE(torch::equal(kept.answers(torch::arange(8)), logits))
      << "hint: a loader shuffles; the n-th row that comes is not that of sample n";
}

TEST(Exercise63, AnswersHaveNoGraph) {
  KeptAnswers kept(2, 3);
  kept.keep(torch::arange(2), torch::ones({2, 3}).requires_grad_() * 2);
  EXPECT_FALSE(kept.answers(torch::arange(2)).requires_grad()) << "hint: the teacher's graph is kept with its logits";
}

}  // namespace
