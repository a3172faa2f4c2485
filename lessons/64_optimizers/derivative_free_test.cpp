// Search without a derivative on functions whose optimum is known and is not where the search begins.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "derivative_free.h"

namespace tenfold {
namespace {

using torch::Tensor;

/// A bowl with its optimum of 0 at 3, a thousand times as steep along one axis as along another, none of which is a
/// parameter's.
double tilted_bowl(const Tensor& point) {
  const Tensor x = point - 3;
  const int64_t n = x.numel();
  const Tensor turned = x - 2.0 / static_cast<double>(n) * x.sum();  // a reflection
  return (torch::logspace(0, 3, n, 10, torch::kDouble) * turned.square()).sum().item<double>();
}

double rosenbrock(const Tensor& x) {
  const int64_t n = x.numel();
  const Tensor low = x.narrow(0, 0, n - 1), high = x.narrow(0, 1, n - 1);
  return (100 * (high - low.square()).square() + (1 - low).square()).sum().item<double>();
}

TEST(CmaEs, LearnsTheShapeOfABowl) {
  const Found found = cma_es(tilted_bowl, torch::zeros({8}), {.sigma = 0.5, .limit = {.evaluations = 4000}, .seed = 1});
  EXPECT_LE(found.loss, 1e-8);
  EXPECT_LE((found.point - 3).abs().max().item<double>(), 1e-3);
  EXPECT_EQ(found.evaluations, 4000);
}

TEST(CmaEs, FollowsAValley) {
  const Found found =
      cma_es(rosenbrock, torch::full({6}, -1.0), {.sigma = 0.3, .limit = {.evaluations = 6000}, .seed = 2});
  EXPECT_LE(found.loss, 4.1);  // there is a second optimum of about 3.97
}

TEST(CmaEs, OfManyParametersKeepsVariancesAlone) {
  const Objective bowl = [](const Tensor& point) { return (point - 1).square().sum().item<double>(); };
  const Found found = cma_es(bowl, torch::zeros({300}), {.sigma = 0.3, .limit = {.evaluations = 3000}, .seed = 3});
  EXPECT_LE(found.loss, 30);  // a tenth of what it is at the start
}

TEST(CmaRates, AreThoseOfThePaper) {
  const CmaRates rates(10);
  EXPECT_EQ(rates.population, 10);
  EXPECT_EQ(rates.weights.size(), 5U);
  EXPECT_NEAR(rates.selected, 3.167, 0.01);
  EXPECT_LE(rates.rank_one + rates.rank_mu, 1);
  EXPECT_NEAR(rates.length, 3.084, 0.01);
}

TEST(Search, OthersComeNearerToo) {
  const Objective bowl = [](const Tensor& point) { return (point - 2).square().sum().item<double>(); };
  const Tensor start = torch::zeros({5});
  const SearchOptions options{.sigma = 0.5, .limit = {.evaluations = 2000}, .seed = 4};
  EXPECT_LE(particle_swarm(bowl, start, options).loss, 1e-6);
  EXPECT_LE(simulated_annealing(bowl, start, options).loss, 0.1);
}

TEST(Search, KeepsToItsLimitsAndItsSeed) {
  for (const auto search : {cma_es, particle_swarm, simulated_annealing}) {
    int64_t calls = 0;
    const Objective counting = [&](const Tensor& point) {
      ++calls;
      return tilted_bowl(point);
    };
    const SearchOptions options{.limit = {.evaluations = 37}, .seed = 5};
    const Found found = search(counting, torch::zeros({8}), options);
    EXPECT_EQ(calls, 37);
    EXPECT_EQ(found.evaluations, 37);
    EXPECT_DOUBLE_EQ(tilted_bowl(found.point), found.loss) << "the best point is kept, not the last";
    EXPECT_TRUE(torch::equal(search(counting, torch::zeros({8}), options).point, found.point));
    EXPECT_GT(search(tilted_bowl, torch::zeros({8}), {.limit = {.seconds = 0.1}, .seed = 5}).evaluations, 10);
  }
}

TEST(Search, NotANumberIsNeverTheBest) {
  const Objective half = [](const Tensor& point) {
    const auto x = point[0].item<double>();
    return x > 0.1 ? std::numeric_limits<double>::quiet_NaN() : x * x;
  };
  for (const auto search : {cma_es, particle_swarm, simulated_annealing}) {
    const Found found = search(half, torch::full({2}, 0.5), {.limit = {.evaluations = 200}, .seed = 6});
    EXPECT_TRUE(std::isfinite(found.loss));
    EXPECT_LE(found.point[0].item<double>(), 0.1);
  }
}

}  // namespace
}  // namespace tenfold
