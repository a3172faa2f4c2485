#include <gtest/gtest.h>

#include EXERCISE

#include <tenfold/rank_threads.h>

#include <exception>
#include <string>

namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;
constexpr int kRanks = 3;

/// Gradients of one rank, before.
Tensors gradients_of(int rank) {
  const double base = rank + 1;
  return {torch::full({2, 3}, base), torch::full({4}, 10 * base), (torch::arange(6.0).view({2, 3}) * base).t()};
}

/// What average_bucket makes of them, on ranks that are threads. An answer that waits for ever is cut off by the group.
std::vector<Tensors> averaged() {
  std::vector<Tensors> result(kRanks);
  std::vector<std::string> failed(kRanks);
  tenfold::on_rank_threads(kRanks, std::chrono::seconds(5), [&](int rank, const auto& group) {
    const auto at = static_cast<size_t>(rank);
    try {
      result[at] = gradients_of(rank);
      average_bucket(result[at], *group);
    } catch (const std::exception& error) {
      failed[at] = error.what();
    }
  });
  for (const auto& failure : failed)
    EXPECT_EQ(failure.substr(0, failure.find('\n')), "") << "hint: does every rank start the same all-reduce?";
  return result;
}

TEST(Exercise52, SomethingArrives) {
  const Tensor first = averaged()[0][0];
  EXPECT_FALSE(torch::equal(first, gradients_of(0)[0]))
      << "hint: nothing has changed; the flat tensor is a copy, so its parts must be copied back";
}

TEST(Exercise52, ItIsTheMean) {
  for (const Tensors& rank : averaged()) {
    EXPECT_TRUE(torch::allclose(rank[0], torch::full({2, 3}, 2.0)))
        << "hint: all-reduce adds up; the mean is the sum over the number of ranks";
    EXPECT_TRUE(torch::allclose(rank[1], torch::full({4}, 20.0))) << "hint: each gradient begins where the one before it ends";
  }
}

TEST(Exercise52, ATransposedGradientKeepsItsPlaces) {
  for (const Tensors& rank : averaged()) {
    EXPECT_TRUE(torch::allclose(rank[2], 2 * torch::arange(6.0).view({2, 3}).t()))
        << "hint: copy a view of the flat tensor in the gradient's shape; do not copy memory";
  }
}

TEST(Exercise52, RanksAreEqualBitForBit) {
  const auto ranks = averaged();
  for (const Tensors& rank : ranks) {
    for (size_t i = 0; i < rank.size(); ++i)
      EXPECT_TRUE(torch::equal(rank[i], ranks[0][i])) << "hint: every rank must do the same to the same sum";
  }
}

}  // namespace
