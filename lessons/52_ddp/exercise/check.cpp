#include <gtest/gtest.h>

#include EXERCISE

#include <algorithm>
#include <string>

#include "tests/support/rank_collectives.h"

namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;
constexpr int kRanks = 3;

/// Gradients of one rank, before.
Tensors gradients_of(int rank) {
  const double base = rank + 1;
  return {torch::full({2, 3}, base), torch::full({4}, 10 * base), (torch::arange(6.0).view({2, 3}) * base).t()};
}

struct Averaged {
  std::vector<Tensors> gradients;                          ///< of each rank
  std::vector<std::vector<std::string>> collectives = {};  ///< of each rank
};

/// What average_bucket makes of them, on ranks that are threads. An answer that waits for ever is cut off by the group.
Averaged averaged() {
  Averaged result{.gradients = std::vector<Tensors>(kRanks)};
  result.collectives = tenfold::test::collectives_of_ranks(
      kRanks, "hint: does every rank start the same all-reduce?", [&](int rank, c10d::ProcessGroup& group) {
        Tensors& gradients = result.gradients[static_cast<size_t>(rank)];
        gradients = gradients_of(rank);
        average_bucket(gradients, group);
      });
  return result;
}

TEST(Exercise52, SomethingArrives) {
  const Tensor first = averaged().gradients[0][0];
  EXPECT_FALSE(torch::equal(first, gradients_of(0)[0]))
      << "hint: nothing has changed; the flat tensor is a copy, so its parts must be copied back";
}

TEST(Exercise52, ItIsTheMean) {
  for (const Tensors& rank : averaged().gradients) {
    EXPECT_TRUE(torch::allclose(rank[0], torch::full({2, 3}, 2.0)))
        << "hint: all-reduce adds up; the mean is the sum over the number of ranks";
    EXPECT_TRUE(torch::allclose(rank[1], torch::full({4}, 20.0)))
        << "hint: each gradient begins where the one before it ends";
  }
}

TEST(Exercise52, ATransposedGradientKeepsItsPlaces) {
  for (const Tensors& rank : averaged().gradients) {
    EXPECT_TRUE(torch::allclose(rank[2], 2 * torch::arange(6.0).view({2, 3}).t()))
        << "hint: copy a view of the flat tensor in the gradient's shape; do not copy memory";
  }
}

TEST(Exercise52, RanksAreEqualBitForBit) {
  const auto ranks = averaged().gradients;
  for (const Tensors& rank : ranks) {
    for (size_t i = 0; i < rank.size(); ++i)
      EXPECT_TRUE(torch::equal(rank[i], ranks[0][i])) << "hint: every rank must do the same to the same sum";
  }
}

TEST(Exercise52, OneAllReduceForAll) {
  for (const auto& collectives : averaged().collectives) {
    EXPECT_EQ(collectives, std::vector<std::string>{"c10d::allreduce_"})
        << "hint: one flat tensor with all gradients in it needs one all-reduce; each further call costs a network's "
           "latency again";
  }
}

}  // namespace
