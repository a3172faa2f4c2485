// R2's step with its attention exchanged against R2's own; on the CPU our kernel runs under the microscope.
#include <gtest/gtest.h>

#include <tenfold/counted.h>
#include <tenfold/gpt_attention.h>

#include <string>
#include <vector>

#include "gpt_training.h"

namespace tenfold {
namespace {

using torch::Tensor;

const GptConfig kTiny{.layers = 1, .width = 64, .heads = 2, .length = 20, .vocabulary = 128};

// As they begin, all scores are near 0 and every weight is the same; the mask and the scale must show.
const test::TinyTraining kTraining{.config = kTiny, .seed = 46, .spread = 0.2, .batch = 2, .learning_rate = 0.01};

class GptAttentionTest : public testing::TestWithParam<Attention> {};

TEST_P(GptAttentionTest, LossesAndGradientsAreThoseOfR2) {
  test::expect_trains_as_r2(
      kTraining, [](GptImpl& model, const Tensor& ids, const Tensor& targets) { return loss_with(model, ids, targets, GetParam()); });
}

const std::vector<std::string> kNames{"Formula", "Aten", "Kernel"};
INSTANTIATE_TEST_SUITE_P(All, GptAttentionTest, testing::Values(attention_by_formula, attention_by_aten, attention_by_kernel),
                         [](const auto& info) { return kNames[info.index]; });

/// Bytes that one attention keeps for backward(), its result among them.
int64_t kept_bytes(Attention attention, int64_t length) {
  return count_step(torch::kCPU,
                    [&] {
                      const Tensor q = torch::randn({1, 2, length, 32}).requires_grad_();
                      const Tensor k = torch::randn_like(q).requires_grad_(), v = torch::randn_like(q).requires_grad_();
                      return Step{1, Parameters(), [=] {
                                    Tensor out;
                                    {
                                      RECORD_USER_SCOPE("attention");
                                      out = attention(q, k, v);
                                    }
                                    const Tensor loss = out.sum();
                                    loss.backward();
                                    return loss;
                                  }};
                    })
      .region("attention")
      .retained_bytes;
}

// What the lesson predicts: weights and mask of every pair with the formula, a number for each query without.
TEST(GptAttention, OnlyTheFormulaKeepsANumberForEachPair) {
  constexpr int64_t kHeads = 2, kWidth = 32, kSlack = 128;  // a block is rounded up
  for (const int64_t length : {64, 128, 256}) {
    const int64_t result = kHeads * length * kWidth * 4;
    EXPECT_NEAR(kept_bytes(attention_by_formula, length), result + kHeads * length * length * 4 + length * length, kSlack) << length;
    EXPECT_NEAR(kept_bytes(attention_by_aten, length), result + kHeads * length * 4, kSlack) << length;
    EXPECT_NEAR(kept_bytes(attention_by_kernel, length), result + kHeads * length * 4, kSlack) << length;
  }
}

TEST(GptAttention, DropoutIsRefused) {
  GptConfig config = kTiny;
  config.dropout = 0.1;
  GptBlock block(config);
  EXPECT_THROW(block_with(*block, torch::randn({1, 4, 64}), attention_by_aten), c10::Error);
}

}  // namespace
}  // namespace tenfold
