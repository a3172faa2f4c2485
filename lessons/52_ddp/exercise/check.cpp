#include <gtest/gtest.h>

#include EXERCISE

#include <ATen/record_function.h>

#include "common/ranks/rank_threads.h"

#include <algorithm>
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

/// The collectives that this thread has started: every one of them is an operator of c10d.
thread_local std::vector<std::string> started;

struct Averaged {
  std::vector<Tensors> gradients;                     ///< of each rank
  std::vector<std::vector<std::string>> collectives;  ///< of each rank
};

/// What average_bucket makes of them, on ranks that are threads. An answer that waits for ever is cut off by the group.
Averaged averaged() {
  Averaged result{std::vector<Tensors>(kRanks), std::vector<std::vector<std::string>>(kRanks)};
  std::vector<std::string> failed(kRanks);
  tenfold::on_rank_threads(kRanks, std::chrono::seconds(5), [&](int rank, const auto& group) {
    const auto at = static_cast<size_t>(rank);
    result.gradients[at] = gradients_of(rank);
    started.clear();
    const auto observer = at::addThreadLocalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& op) -> std::unique_ptr<at::ObserverContext> {
          if (std::string(op.name()).starts_with("c10d::")) started.emplace_back(op.name());
          return nullptr;
        }).scopes({at::RecordScope::FUNCTION}));
    try {
      average_bucket(result.gradients[at], *group);
    } catch (const std::exception& error) {
      failed[at] = error.what();
    }
    at::removeCallback(observer);
    result.collectives[at] = started;
  });
  for (const auto& failure : failed)
    EXPECT_EQ(failure.substr(0, failure.find('\n')), "") << "hint: does every rank start the same all-reduce?";
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
