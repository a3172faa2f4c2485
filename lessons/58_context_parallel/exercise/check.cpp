#include <gtest/gtest.h>

#include EXERCISE

#include "common/ranks/rank_threads.h"

#include <ATen/CPUGeneratorImpl.h>

#include <exception>
#include <string>
#include <vector>

namespace {

using torch::Tensor;
constexpr int kRanks = 3;
constexpr int64_t kTokens = 4, kSize = 5;  // of a rank, of a head

Tensor random(at::IntArrayRef sizes, uint64_t seed) {
  return torch::randn(sizes, at::detail::createCPUGenerator(seed));
}

Tensor queries() { return random({kRanks * kTokens, kSize}, 1); }
Tensor keys() { return random({kRanks * kTokens, kSize}, 2); }
Tensor values() { return random({kRanks * kTokens, kSize}, 3); }

/// All queries, and the keys from `begin` to before `end`.
Part of_keys(int64_t begin, int64_t end, double scale = 1) {
  return attend(scale * queries(), keys().slice(0, begin, end), values().slice(0, begin, end));
}

// Sums of 12 products in another order: rounding stays below 1e-5.
bool is_close(const Tensor& a, const Tensor& b) { return a.defined() && torch::allclose(a, b, 1e-4, 1e-4); }

TEST(Exercise58, TwoPartsOfEqualSizeAreTheWhole) {
  EXPECT_TRUE(is_close(merged(of_keys(0, 6), of_keys(6, 12)).out, of_keys(0, 12).out))
      << "hint: a part with larger scores weighs more: by exp(its lse) over the sum of both";
}

TEST(Exercise58, ThreePartsAreTheWhole) {
  const Part all = merged(merged(of_keys(0, 1), of_keys(1, 8)), of_keys(8, 12));
  EXPECT_TRUE(is_close(all.out, of_keys(0, 12).out))
      << "hint: the merged lse is that of the keys of both parts: the next merge weighs by it";
}

TEST(Exercise58, LargeScoresDoNotOverflow) {
  const Part all = merged(of_keys(0, 5, 100), of_keys(5, 12, 100));
  // Scores of some hundreds have an error of 3e-5 in 32 bits, and so has a weight.
  EXPECT_TRUE(all.out.isfinite().all().item<bool>() && torch::allclose(all.out, of_keys(0, 12, 100).out, 1e-3, 1e-3))
      << "hint: exp(lse) is no number of 32 bits for an lse above 88: take differences of logarithms first";
}

/// On ranks that are threads. An answer that waits for ever is cut off by the group.
std::vector<Tensor> on_ranks() {
  std::vector<Tensor> results(kRanks);
  std::vector<std::string> failed(kRanks);
  tenfold::on_rank_threads(kRanks, std::chrono::seconds(5), [&](int rank, const auto& group) {
    const auto own = [&](const Tensor& t) { return t.narrow(0, rank * kTokens, kTokens).clone(); };
    try {
      results[static_cast<size_t>(rank)] = ring(own(queries()), own(keys()), own(values()), group);
    } catch (const std::exception& error) {
      failed[static_cast<size_t>(rank)] = error.what();
    }
  });
  for (const auto& failure : failed)
    EXPECT_EQ(failure.substr(0, failure.find('\n')), "")
        << "hint: every rank sends as often as it receives: N - 1 times";
  return results;
}

TEST(Exercise58, EveryRankSeesTheKeysOfAllRanks) {
  const auto ranks = on_ranks();
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_TRUE(is_close(ranks[static_cast<size_t>(rank)], of_keys(0, 12).out.narrow(0, rank * kTokens, kTokens)))
        << "hint: pass on the block that came last, not this rank's own, N - 1 times, and merge each";
}

}  // namespace
