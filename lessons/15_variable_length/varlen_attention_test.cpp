// Attention of packed sequences, by each of the ways: equal to eager attention, and no token sees another sequence or a
// later token.
#include <gtest/gtest.h>

#include "lessons/46_flash_attention/gpt_attention.h"
#include "varlen_attention.h"

#include <string>
#include <vector>

namespace tenfold {
namespace {

using torch::Tensor;

constexpr int64_t kHeads = 2, kWidth = 8;

struct Way {
  std::string name;
  PackedAttention attention;
  bool needs_cuda = false;
};

Tensor attention_with_mask(const Tensor& qkv, const Packing& packing) {
  Packing with_mask = packing;
  with_mask.mask = block_diagonal_mask(packing);
  return attention_masked(qkv, with_mask);
}

const std::vector<Way> kWays{{"Each", attention_of_each},
                             {"Padded", attention_padded},
                             {"Masked", attention_with_mask},
                             {"OneKernel", attention_in_one_kernel, true}};

const std::vector<std::vector<int64_t>> kLengths{{1}, {5}, {3, 1, 4}, {1, 1}, {13, 2, 40, 7, 7, 1}, {130, 3}};

class VarlenAttentionTest : public testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    if (way().needs_cuda && !torch::cuda::is_available()) GTEST_SKIP() << "needs a CUDA device";
    torch::manual_seed(15);
  }
  static const Way& way() { return kWays[GetParam()]; }
  static std::vector<torch::Device> devices() {
    std::vector<torch::Device> found;
    if (!way().needs_cuda) found.emplace_back(torch::kCPU);
    if (torch::cuda::is_available()) found.emplace_back(torch::kCUDA);
    return found;
  }
};

/// Eager, in float64, one sequence after the other: (total, 3, H, D) -> (total, H * D).
Tensor eager(const Tensor& qkv, const Packing& packing) {
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < packing.count(); ++i) {
    const auto at = static_cast<size_t>(i);
    const auto parts = qkv.slice(0, packing.offsets[at], packing.offsets[at + 1])
                           .to(torch::kDouble)
                           .permute({1, 2, 0, 3})
                           .unsqueeze(1)
                           .unbind(0);
    rows.push_back(eager_attention(parts[0], parts[1], parts[2])[0].transpose(0, 1).flatten(1));
  }
  return torch::cat(rows);
}

TEST_P(VarlenAttentionTest, ResultsAndGradientsAreThoseOfEager) {
  for (const torch::Device device : devices()) {
    for (const auto& lengths : kLengths) {
      const Packing packing = make_packing(lengths, device);
      const Tensor qkv = torch::randn({packing.total(), 3, kHeads, kWidth}, device).requires_grad_();
      const Tensor same = qkv.detach().clone().requires_grad_();
      const Tensor found = way().attention(qkv, packing), expected = eager(same, packing);
      ASSERT_EQ(found.sizes(), expected.sizes());
      EXPECT_TRUE(torch::allclose(found.to(torch::kDouble), expected, 1e-4, 1e-5)) << device << ", lengths " << lengths;
      const Tensor weight = torch::randn_like(found);
      (found * weight).sum().backward();
      (expected * weight).sum().backward();
      EXPECT_TRUE(torch::allclose(qkv.grad(), same.grad(), 1e-4, 1e-5)) << device << ", lengths " << lengths;
    }
  }
}

TEST_P(VarlenAttentionTest, NoTokenSeesAnotherSequenceOrALaterToken) {
  for (const torch::Device device : devices()) {
    for (const auto& lengths : kLengths) {
      const Packing packing = make_packing(lengths, device);
      const Tensor qkv = torch::randn({packing.total(), 3, kHeads, kWidth}, device),
                   before = way().attention(qkv, packing);
      for (size_t i = 0; i < lengths.size(); ++i) {
        const int64_t first = packing.offsets[i], last = packing.offsets[i + 1];
        Tensor changed = qkv.clone();
        changed.slice(0, first, last).normal_().mul_(10);  // all of the sequence
        Tensor after = way().attention(changed, packing);
        EXPECT_TRUE(torch::equal(after.slice(0, 0, first), before.slice(0, 0, first)))
            << lengths << ": before sequence " << i;
        EXPECT_TRUE(torch::equal(after.slice(0, last), before.slice(0, last))) << lengths << ": behind sequence " << i;
        EXPECT_FALSE(torch::equal(after.slice(0, first, last), before.slice(0, first, last)));

        changed = qkv.clone();
        changed[last - 1].normal_().mul_(10);  // its last token
        after = way().attention(changed, packing);
        EXPECT_TRUE(torch::equal(after.slice(0, first, last - 1), before.slice(0, first, last - 1)))
            << lengths << ": within " << i;
      }
    }
  }
}

TEST_P(VarlenAttentionTest, NoGradientFlowsToAnotherSequence) {
  for (const torch::Device device : devices()) {
    const Packing packing = make_packing({6, 1, 9}, device);
    for (size_t i = 0; i < 3; ++i) {
      const Tensor qkv = torch::randn({packing.total(), 3, kHeads, kWidth}, device).requires_grad_();
      const int64_t first = packing.offsets[i], last = packing.offsets[i + 1];
      way().attention(qkv, packing).slice(0, first, last).pow(2).sum().backward();
      EXPECT_GT(qkv.grad().slice(0, first, last).abs().sum().item<double>(), 0);
      EXPECT_EQ(qkv.grad().slice(0, 0, first).abs().sum().item<double>(), 0) << "before sequence " << i;
      EXPECT_EQ(qkv.grad().slice(0, last).abs().sum().item<double>(), 0) << "behind sequence " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, VarlenAttentionTest, testing::Range(size_t{0}, kWays.size()),
                         [](const auto& info) { return kWays[info.param].name; });

TEST(BlockDiagonalMask, AllowsEarlierTokensOfTheSameSequence) {
  const double no = -INFINITY;
  const Tensor expected = torch::tensor({{0., no, no}, {0., 0., no}, {no, no, 0.}}, torch::kFloat);
  EXPECT_TRUE(torch::equal(block_diagonal_mask(make_packing({2, 1}, torch::kCPU)), expected));
}

}  // namespace
}  // namespace tenfold
