#include <gtest/gtest.h>

#include EXERCISE

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/rank_collectives.h"

namespace {

using torch::Tensor;
constexpr int kRanks = 3, kUpdates = 3;
constexpr double kRate = 0.1;

Tensor gradient_of(int rank, int update, int64_t values) {
  return torch::arange(1, values + 1, torch::kFloat) * (rank + 1) + 0.5 * update;
}

struct Trained {
  std::vector<Tensor> parameters = std::vector<Tensor>(kRanks);  // of each rank
  std::vector<Tensor> momentum = std::vector<Tensor>(kRanks);
  std::vector<std::vector<std::string>> collectives = {};
};

/// Some updates on ranks that are threads. An answer that waits for ever is cut off by the group.
Trained trained(int64_t values) {
  Trained result;
  const std::string hint = "hint: whole tensors have size * ranks values, and every rank starts the same collectives";
  const auto train = [&](int rank, c10d::ProcessGroup& group) {
    const auto at = static_cast<size_t>(rank);
    result.parameters[at] = torch::zeros({values});
    result.momentum[at] = torch::zeros({(values + kRanks - 1) / kRanks});
    for (int update = 0; update < kUpdates; ++update)
      sharded_step(result.parameters[at], gradient_of(rank, update, values), result.momentum[at], kRate, group);
  };
  result.collectives = tenfold::test::collectives_of_ranks(kRanks, hint, train);
  return result;
}

/// What one process makes of the mean gradients.
std::pair<Tensor, Tensor> alone(int64_t values) {
  Tensor parameters = torch::zeros({values}), momentum = torch::zeros({values});
  for (int update = 0; update < kUpdates; ++update) {
    Tensor mean = torch::zeros({values});
    for (int rank = 0; rank < kRanks; ++rank) mean += gradient_of(rank, update, values) / kRanks;
    momentum.mul_(0.9).add_(mean);
    parameters.sub_(momentum, kRate);
  }
  return {parameters, momentum};
}

TEST(Exercise53, SomethingIsTrained) {
  EXPECT_GT(trained(6).parameters[0].abs().max().item<float>(), 0)
      << "hint: reduce-scatter the gradients, update your shard of the parameters, all-gather them";
}

TEST(Exercise53, EveryRankHasEveryShardsUpdate) {
  const Trained ranks = trained(6);
  for (const Tensor& parameters : ranks.parameters)
    EXPECT_TRUE(torch::equal(parameters, ranks.parameters[0]))
        << "hint: a rank has updated its own shard; an all-gather brings it the others";
}

TEST(Exercise53, TheUpdateIsThatOfTheMeanGradient) {
  for (const Tensor& parameters : trained(6).parameters)
    EXPECT_TRUE(torch::allclose(parameters, alone(6).first))
        << "hint: a shard's gradient is the mean over all ranks: reduce-scatter sums, so divide by their number";
}

TEST(Exercise53, MomentumIsThatOfTheShard) {
  const Trained ranks = trained(6);
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_TRUE(torch::allclose(ranks.momentum[static_cast<size_t>(rank)], alone(6).second.narrow(0, 2 * rank, 2)))
        << "hint: rank r's shard begins at r * size";
}

TEST(Exercise53, ValuesThatTheRanksDoNotDivide) {
  const Trained ranks = trained(7);
  for (const Tensor& parameters : ranks.parameters)
    EXPECT_TRUE(torch::allclose(parameters, alone(7).first))
        << "hint: 7 values on 3 ranks are shards of 3: fill up with zeros at the end, and drop them in the end";
}

TEST(Exercise53, NoRankReducesWhatItDoesNotKeep) {
  for (const auto& collectives : trained(6).collectives) {
    EXPECT_TRUE(std::find(collectives.begin(), collectives.end(), "c10d::allreduce_") == collectives.end())
        << "hint: an all-reduce gives each rank the whole sum, at the price of a reduce-scatter and an all-gather";
    EXPECT_LE(collectives.size(), 2u * kUpdates) << "hint: two collectives an update are enough";
  }
}

}  // namespace
