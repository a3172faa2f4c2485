// The GPT with its small operators replaced trains as with its own; on the CPU the fused kernels run under the
// microscope.
#include <gtest/gtest.h>

#include "gpt_operators.h"

#include "tests/support/gpt_training.h"

namespace tenfold {
namespace {

// Norms and biases begin as ones and zeros; a lost one must show.
const test::TinyTraining kTraining{
    .options = {.layers = 1, .width = 32, .heads = 4, .length = 16, .batch = 1}, .seed = 43, .spread = 0.1};

class GptOperatorsTest : public testing::TestWithParam<const GptOperators*> {};

TEST_P(GptOperatorsTest, LossesAndGradientsAreTheGptsOwn) {
  test::expect_trains_as_gpt(kTraining, with_operators(*GetParam()));
}

INSTANTIATE_TEST_SUITE_P(All, GptOperatorsTest, testing::Values(&kEager, &kFused),
                         [](const auto& info) { return std::string(info.param == &kFused ? "Fused" : "Eager"); });

}  // namespace
}  // namespace tenfold
