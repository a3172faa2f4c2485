#include <gtest/gtest.h>

#include EXERCISE

#include "common/ranks/rank_threads.h"

#include <ATen/CPUGeneratorImpl.h>

#include <exception>
#include <string>
#include <vector>

namespace {

using torch::Tensor;
constexpr int kRanks = 2;
constexpr int64_t kRows = 5, kWidth = 4, kInner = 6;

Tensor random(at::IntArrayRef sizes, uint64_t seed) {
  return torch::randn(sizes, at::detail::createCPUGenerator(seed));
}

/// Two layers: (n, D) -> (n, 6), cut along the outputs, -> (n, D), cut along the inputs. The weights of rank `rank` of
/// `ranks`.
struct Layers {
  Layers(int rank, int ranks) {
    const int64_t size = kInner / ranks;
    up = random({kInner, kWidth}, 1).narrow(0, rank * size, size).clone().requires_grad_();
    down = random({kWidth, kInner}, 2).narrow(1, rank * size, size).clone().requires_grad_();
  }
  Tensor up, down;
  Tensor bias = random({kWidth}, 3).requires_grad_();
  Tensor x = random({kRows, kWidth}, 4).requires_grad_();
};

struct Results {
  Tensor result, of_x, of_up, of_down, of_bias;
};

Results after_backward(const Layers& layers, const Tensor& result) {
  (result * random({kRows, kWidth}, 5)).sum().backward();
  return {result.detach(), layers.x.grad(), layers.up.grad(), layers.down.grad(), layers.bias.grad()};
}

Results alone() {
  const Layers whole(0, 1);
  return after_backward(whole, torch::linear(torch::tanh(torch::linear(whole.x, whole.up)), whole.down, whole.bias));
}

/// On ranks that are threads. An answer that waits for ever is cut off by the group.
std::vector<Results> divided() {
  std::vector<Results> results(kRanks);
  std::vector<std::string> failed(kRanks);
  tenfold::on_rank_threads(kRanks, std::chrono::seconds(5), [&](int rank, const auto& group) {
    const auto at = static_cast<size_t>(rank);
    try {
      const Layers part(rank, kRanks);
      const Tensor inner = torch::tanh(torch::linear(CopyToRanks::apply(part.x, group), part.up));
      results[at] = after_backward(part, row_parallel(inner, part.down, part.bias, group));
    } catch (const std::exception& error) {
      failed[at] = error.what();
    }
  });
  for (const auto& failure : failed)
    EXPECT_EQ(failure.substr(0, failure.find('\n')), "") << "hint: every rank starts the same collectives";
  return results;
}

// Sums of 6 products in another order: rounding stays below 1e-5.
bool is_close(const Tensor& a, const Tensor& b) { return a.defined() && torch::allclose(a, b, 1e-4, 1e-5); }
Tensor part_of(const Tensor& whole, int64_t dimension, int rank) {
  return whole.narrow(dimension, rank * kInner / kRanks, kInner / kRanks);
}

TEST(Exercise54, EveryRankHasTheWholeLayersResult) {
  for (const Results& rank : divided())
    EXPECT_TRUE(is_close(rank.result, alone().result))
        << "hint: a rank's matmul is a part of each sum: add the parts of all ranks, and then the bias, once";
}

TEST(Exercise54, TheSumsGradientIsEachPartsGradient) {
  const auto ranks = divided();
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_TRUE(is_close(ranks[static_cast<size_t>(rank)].of_down, part_of(alone().of_down, 1, rank)))
        << "hint: every rank has the whole gradient of the sum already; reduced again it is as many times too large";
}

TEST(Exercise54, TheBiasHasItsGradientOnEveryRank) {
  for (const Results& rank : divided())
    EXPECT_TRUE(is_close(rank.of_bias, alone().of_bias)) << "hint: the bias is added to the sum, after the all-reduce";
}

TEST(Exercise54, AColumnsGradientIsThatOfTheWhole) {
  const auto ranks = divided();
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_TRUE(is_close(ranks[static_cast<size_t>(rank)].of_up, part_of(alone().of_up, 0, rank)))
        << "hint: a rank's own rows of the first weight need nothing from others";
}

TEST(Exercise54, TheInputsGradientIsSummed) {
  for (const Results& rank : divided())
    EXPECT_TRUE(is_close(rank.of_x, alone().of_x))
        << "hint: each rank has the gradient through its own outputs; the input's gradient is their sum";
}

}  // namespace
