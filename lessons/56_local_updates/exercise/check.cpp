#include <gtest/gtest.h>

#include EXERCISE

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/rank_collectives.h"

namespace {

using torch::Tensor;
constexpr int kRanks = 3;
constexpr double kRate = 0.7, kMomentum = 0.9;

/// What a rank's own updates add to the parameters in a round; 2 on average in the first value.
Tensor own_updates(int rank, int round) { return torch::tensor({rank + 1.0, 0.5 * round, -1.0}, torch::kDouble); }

struct Ended {
  std::vector<Tensor> parameters = std::vector<Tensor>(kRanks);  // of each rank
  std::vector<Tensor> start = std::vector<Tensor>(kRanks);
  std::vector<Tensor> velocity = std::vector<Tensor>(kRanks);
  std::vector<std::vector<std::string>> collectives = {};
};

/// Some rounds on ranks that are threads. An answer that waits for ever is cut off by the group.
Ended after(int rounds, double rate, double momentum) {
  Ended ended;
  const auto train = [&](int rank, c10d::ProcessGroup& group) {
    const auto at = static_cast<size_t>(rank);
    Tensor &parameters = ended.parameters[at], &start = ended.start[at], &velocity = ended.velocity[at];
    parameters = torch::ones({3}, torch::kDouble);
    start = parameters.clone();
    velocity = torch::zeros({3}, torch::kDouble);
    for (int round = 0; round < rounds; ++round) {
      parameters.add_(own_updates(rank, round));
      outer_step(parameters, start, velocity, rate, momentum, group);
    }
  };
  ended.collectives = tenfold::test::collectives_of_ranks(
      kRanks, "hint: every rank starts the same collectives, of its n values", train);
  return ended;
}

TEST(Exercise56, TheStepGoesWhereTheRanksWent) {
  const double first = after(1, kRate, kMomentum).parameters[0][0].item<double>();
  EXPECT_GT(first, 1) << "hint: the outer gradient is start - mean: a step against it goes where the ranks went";
}

TEST(Exercise56, AllRanksGoOnFromTheSameParameters) {
  const Ended ended = after(2, kRate, kMomentum);
  for (size_t rank = 1; rank < kRanks; ++rank) {
    EXPECT_TRUE(torch::equal(ended.parameters[rank], ended.parameters[0]))
        << "hint: take the mean over the ranks first; what follows is then the same on all of them";
    EXPECT_TRUE(torch::equal(ended.velocity[rank], ended.velocity[0]))
        << "hint: take the mean over the ranks first; what follows is then the same on all of them";
  }
}

TEST(Exercise56, WithARateOfOneAndNoMomentumItIsTheMean) {
  EXPECT_TRUE(torch::allclose(after(1, 1, 0).parameters[0], torch::tensor({3.0, 1.0, 0.0}, torch::kDouble)))
      << "hint: an all-reduce sums; divide by the number of ranks";
}

TEST(Exercise56, MomentumIsNesterovs) {
  const Tensor start = torch::ones({3}, torch::kDouble);
  Tensor expected = start.clone().requires_grad_();
  torch::optim::SGD nesterov({expected}, torch::optim::SGDOptions(kRate).momentum(kMomentum).nesterov(true));
  constexpr int kRounds = 3;
  for (int round = 0; round < kRounds; ++round) {
    Tensor mean = torch::zeros({3}, torch::kDouble);
    for (int rank = 0; rank < kRanks; ++rank) mean += own_updates(rank, round) / kRanks;
    expected.mutable_grad() = -mean;
    nesterov.step();
  }
  EXPECT_TRUE(torch::allclose(after(kRounds, kRate, kMomentum).parameters[0], expected.detach()))
      << "hint: velocity = momentum * velocity + gradient; the step is rate * (gradient + momentum * velocity)";
}

TEST(Exercise56, TheNextRoundBeginsWhereThisOneEnded) {
  const Ended ended = after(2, kRate, kMomentum);
  EXPECT_TRUE(torch::equal(ended.start[0], ended.parameters[0]))
      << "hint: start is the parameters that all ranks go on from";
}

TEST(Exercise56, OneCollectiveIsEnough) {
  for (const auto& collectives : after(1, kRate, kMomentum).collectives)
    EXPECT_LE(collectives.size(), 1U) << "hint: all else follows from the mean, without asking anyone";
}

}  // namespace
