// R2's step with its operators exchanged against R2's own; on the CPU the fused kernels run under the microscope.
#include <gtest/gtest.h>

#include <tenfold/gpt_operators.h>

#include "gpt_training.h"

namespace tenfold {
namespace {

using torch::Tensor;

const GptConfig kTiny{.layers = 1, .width = 32, .heads = 4, .length = 16, .vocabulary = 128};

// Norms and biases begin as ones and zeros; a lost one must show.
const test::TinyTraining kTraining{.config = kTiny, .seed = 43, .spread = 0.1};

class GptOperatorsTest : public testing::TestWithParam<const GptOperators*> {};

TEST_P(GptOperatorsTest, LossesAndGradientsAreThoseOfR2) {
  test::expect_trains_as_r2(
      kTraining, [](GptImpl& model, const Tensor& ids, const Tensor& targets) { return loss_with(model, ids, targets, *GetParam()); });
}

INSTANTIATE_TEST_SUITE_P(All, GptOperatorsTest, testing::Values(&kByFormula, &kFused),
                         [](const auto& info) { return std::string(info.param == &kFused ? "Fused" : "ByFormula"); });

TEST(GptOperators, DropoutIsRefused) {
  GptConfig config = kTiny;
  config.dropout = 0.1;
  GptBlock block(config);
  EXPECT_THROW(block_forward(*block, torch::randn({1, 4, 32}), kByFormula), c10::Error);
}

}  // namespace
}  // namespace tenfold
