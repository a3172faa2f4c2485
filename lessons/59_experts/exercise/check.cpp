#include <gtest/gtest.h>

#include EXERCISE

#include "common/ranks/rank_threads.h"

#include <ATen/CPUGeneratorImpl.h>

#include <chrono>
#include <exception>
#include <string>
#include <vector>

namespace {

using torch::Tensor;
constexpr int kRanks = 3;
constexpr int64_t kTokens = 6, kWidth = 4;  // tokens of each rank

Tensor random(at::IntArrayRef sizes, uint64_t seed) {
  return torch::randn(sizes, at::detail::createCPUGenerator(seed));
}

Tensor all_tokens() { return random({kRanks * kTokens, kWidth}, 1); }
Tensor all_gates() { return random({kRanks * kTokens}, 2).abs() + 0.5; }
Tensor all_weights() { return random({kRanks, kWidth, kWidth}, 3); }
Tensor all_scales() { return random({kRanks * kTokens, kWidth}, 4); }
/// Unequal numbers, in no order: rank 1 has no token for expert 0.
Tensor all_experts() { return torch::tensor({2, 0, 1, 2, 2, 0, 1, 2, 1, 1, 2, 1, 0, 2, 1, 0, 0, 2}, torch::kLong); }

struct Results {
  Tensor result, of_x, of_gates, of_weight;
  bool finished = false;
};

/// Each token's expert looked up: (n, D).
Results alone() {
  const Tensor x = all_tokens().requires_grad_(), gates = all_gates().requires_grad_();
  const Tensor weights = all_weights().requires_grad_();
  const Tensor of_token = weights.index_select(0, all_experts());  // (n, D, D)
  const Tensor result = x.unsqueeze(1).bmm(of_token).squeeze(1) * gates.unsqueeze(1);
  (result * all_scales()).sum().backward();
  return {result.detach(), x.grad(), gates.grad(), weights.grad(), true};
}

Tensor part_of(const Tensor& all, int rank) { return all.narrow(0, rank * kTokens, kTokens); }

/// On ranks that are threads. An answer that waits for ever is cut off by the group.
std::vector<Results> on_ranks(bool backward) {
  std::vector<Results> results(kRanks);
  std::vector<std::string> failed(kRanks);
  tenfold::on_rank_threads(kRanks, std::chrono::seconds(5), [&](int rank, const auto& group) {
    const auto at = static_cast<size_t>(rank);
    try {
      const Tensor x = part_of(all_tokens(), rank).clone().requires_grad_();
      const Tensor gates = part_of(all_gates(), rank).clone().requires_grad_();
      const Tensor weight = all_weights()[rank].clone().requires_grad_();
      const Tensor result = mixture(x, part_of(all_experts(), rank), gates, weight, group);
      results[at].result = result.detach();
      if (backward) (result * part_of(all_scales(), rank)).sum().backward();
      results[at].of_x = x.grad();
      results[at].of_gates = gates.grad();
      results[at].of_weight = weight.grad();
      results[at].finished = true;
    } catch (const std::exception& error) {
      failed[at] = error.what();
    }
  });
  for (const auto& failure : failed)
    EXPECT_EQ(failure.substr(0, failure.find('\n')), "")
        << (backward
                ? "hint: in backward a rank gets what it sent in forward, and sends what it got: splits change places"
                : "hint: what a rank expects from another must be what that one sends");
  return results;
}

// Sums of 4 products and of 18 rows in another order: rounding stays below 1e-4.
bool is_close(const Tensor& a, const Tensor& b) {
  return a.defined() && a.sizes() == b.sizes() && torch::allclose(a, b, 1e-4, 1e-4);
}

TEST(Exercise59, CountsAreToldBeforeRowsAreSent) {
  std::vector<Counts> got(kRanks);
  tenfold::on_rank_threads(kRanks, std::chrono::seconds(5), [&](int rank, const auto& group) {
    got[static_cast<size_t>(rank)] = counts_from({10 * rank, 10 * rank + 1, 10 * rank + 2}, group);
  });
  for (int64_t rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(got[static_cast<size_t>(rank)], (Counts{rank, 10 + rank, 20 + rank}))
        << "hint: from[r] is what rank r has in its own to[]: the ranks must exchange these numbers";
}

TEST(Exercise59, EveryTokenGetsItsExpertsResult) {
  const auto ranks = on_ranks(/*backward=*/false);
  const Tensor expected = alone().result, gates = all_gates().unsqueeze(1);
  for (int rank = 0; rank < kRanks; ++rank) {
    const Tensor& result = ranks[static_cast<size_t>(rank)].result;
    const Tensor own = part_of(expected, rank);
    if (is_close(result, own)) continue;
    if (is_close(result, own / part_of(gates, rank)))
      ADD_FAILURE() << "hint: the gates are not applied, so that the router would have no gradient";
    else
      ADD_FAILURE() << "hint: rows come back sorted by expert; the inverse of a permutation puts them back, not the "
                       "permutation";
    return;
  }
}

TEST(Exercise59, GradientsGoBackToTheirTokens) {
  const auto ranks = on_ranks(/*backward=*/true);
  const Results expected = alone();
  for (int rank = 0; rank < kRanks; ++rank) {
    const Results& own = ranks[static_cast<size_t>(rank)];
    if (!own.finished) return;
    EXPECT_TRUE(is_close(own.of_x, part_of(expected.of_x, rank)))
        << "hint: a token's gradient comes from the rank of its expert";
    EXPECT_TRUE(is_close(own.of_gates, part_of(expected.of_gates, rank)))
        << "hint: a gate's gradient is its token's result times the result's gradient";
  }
}

TEST(Exercise59, AnExpertsGradientIsOfAllItsRows) {
  const auto ranks = on_ranks(/*backward=*/true);
  const Results expected = alone();
  for (int rank = 0; rank < kRanks; ++rank) {
    const Results& own = ranks[static_cast<size_t>(rank)];
    if (own.finished)
      EXPECT_TRUE(is_close(own.of_weight, expected.of_weight[rank]))
          << "hint: an expert's gradient is the sum over the rows of all ranks, and needs no all-reduce";
  }
}

}  // namespace
