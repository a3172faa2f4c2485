// The GPT with its attention replaced trains as with its own; on the CPU our kernel runs under the microscope.
#include <gtest/gtest.h>

#include "common/measure/counted.h"
#include "gpt_attention.h"

#include <string>
#include <vector>

#include "tests/support/gpt_training.h"

namespace tenfold {
namespace {

using torch::Tensor;

// As they begin, all scores are near 0 and every weight is the same; the mask and the scale must show.
const test::TinyTraining kTraining{
    .options = {.layers = 1, .width = 64, .heads = 2, .length = 20, .batch = 2, .learning_rate = 0.01},
    .seed = 46,
    .spread = 0.2};

class GptAttentionTest : public testing::TestWithParam<Attention> {};

TEST_P(GptAttentionTest, LossesAndGradientsAreTheGptsOwn) {
  test::expect_trains_as_gpt(kTraining, with_attention(GetParam()));
}

const std::vector<std::string> kNames{"Eager", "Sdpa", "Kernel"};
INSTANTIATE_TEST_SUITE_P(All, GptAttentionTest, testing::Values(eager_attention, sdpa_attention, kernel_attention),
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

// What the lesson predicts: eager keeps weights and mask of every pair, the others a number for each query.
TEST(GptAttention, OnlyEagerKeepsANumberForEachPair) {
  constexpr int64_t kHeads = 2, kWidth = 32, kSlack = 128;  // a block is rounded up
  for (const int64_t length : {64, 128, 256}) {
    const int64_t result = kHeads * length * kWidth * 4;
    EXPECT_NEAR(kept_bytes(eager_attention, length), result + kHeads * length * length * 4 + length * length, kSlack)
        << length;
    EXPECT_NEAR(kept_bytes(sdpa_attention, length), result + kHeads * length * 4, kSlack) << length;
    EXPECT_NEAR(kept_bytes(kernel_attention, length), result + kHeads * length * 4, kSlack) << length;
  }
}

TEST(GptAttention, DropoutIsRefused) {
  GptOptions options = kTraining.options;
  options.dropout = 0.1;
  Gpt model(options, with_attention(sdpa_attention));
  EXPECT_THROW(model->hidden(torch::zeros({1, 4}, torch::kLong)), c10::Error);
}

}  // namespace
}  // namespace tenfold
