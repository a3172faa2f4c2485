// One byte budget for all variants: each is timed with the largest value of a setting that fits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/harness/toy.h"

namespace {

using tenfold::Step;
using tenfold::Trial;
using testing::HasSubstr;
using torch::Tensor;
using namespace tenfold::expect;

constexpr tenfold::Setting<int64_t> kRows{"rows", 64, "samples in a batch"};
constexpr int64_t kBytesOfRow = 50000;  // that a step has for a sample at its highest moment, and more

/// Trains the toy on `rows` samples, all at once or one half after the other: activations of a half take half the
/// memory.
Step train(const Trial& trial, int64_t parts) {
  const int64_t rows = trial.get(kRows);
  auto model = std::make_shared<toy::Model>();
  const Tensor inputs = torch::ones({rows, 200}), targets = torch::ones({rows, 50});
  return {.items = rows, .parameters = model->layer->named_parameters(), .update = [=] {
            model->optimizer.zero_grad();
            Tensor total = torch::zeros({});
            for (int64_t part = 0; part < parts; ++part) {
              const int64_t from = part * rows / parts, to = (part + 1) * rows / parts;
              const Tensor workspace = torch::ones({(to - from) * kBytesOfRow / 4});  // as activations would be
              Tensor loss = torch::mse_loss(model->layer(inputs.slice(0, from, to)), targets.slice(0, from, to));
              (loss / parts).backward();
              total += loss.detach() / parts;
            }
            model->optimizer.step();
            return total;
          }};
}

tenfold::Lesson lesson(int64_t bytes) {
  auto lesson = toy::lesson();
  lesson.settings = {kRows};
  lesson.baseline.build = [](const Trial& trial) { return train(trial, 1); };
  lesson.techniques = {{"in halves", [](const Trial& trial) { return train(trial, 2); }}};
  lesson.agreement = tenfold::Agreement::within(1e-4, "the same sums in another order");
  lesson.cases = {{.name = "same budget", .budget = tenfold::SameBudget{bytes, "rows"}}};
  return lesson;
}

TEST(Budget, EachVariantIsTimedAtTheLargestThatFits) {
  const int64_t bytes = 10 * 64 * kBytesOfRow;
  const auto ran = toy::run(lesson(bytes), {"--preset", "quick", "--rounds", "6"});
  EXPECT_EQ(ran.code, 0) << ran.err << ran.out;
  const tenfold::CaseResult& c = ran.result.cases.at(0);
  ASSERT_TRUE(c.budget);
  EXPECT_EQ(c.budget->bytes, bytes);
  EXPECT_EQ(c.budget->setting, "rows");
  EXPECT_EQ(c.settings.at("rows"), tenfold::SettingValue{int64_t{64}}) << "where agreement was checked";
  const auto value = [&](size_t i) { return std::get<int64_t>(c.variants.at(i).budget_value.value()); };
  // Ten workspaces of 64 rows are the whole budget, so nine fit beside the model; of halves nearly twice as many.
  EXPECT_EQ(value(0), 9 * 64);
  EXPECT_GE(value(1), 17 * 64);
  EXPECT_LE(value(1), 19 * 64);
  for (const size_t i : {0, 1}) {
    EXPECT_LE(*c.variants[i].peak(), bytes);
    EXPECT_EQ(c.variants[i].blocks.at(0).items, c.variants[i].blocks[0].steps * value(i));
  }
  EXPECT_TRUE(c.verdicts.at(0).agreement->pass);
  EXPECT_TRUE(c.verdicts[0].speed.ratio);
  EXPECT_NE(tenfold::row_identity(ran.result, c, "plain").find("rows=" + std::to_string(value(0))), std::string::npos);
  EXPECT_THAT(ran.out, HasSubstr("the largest in a budget of"));
}

TEST(Budget, WhatExceedsItAtItsOwnValueIsOutOfMemory) {
  auto exceeding = lesson(64 * kBytesOfRow * 2 / 3);
  std::swap(exceeding.baseline.build, exceeding.techniques[0].build);
  exceeding.techniques[0].name = "at once";
  exceeding.cases[0].expected = {{"at once", EXCEEDS}};
  const auto ran = toy::run(exceeding, {"--preset", "smoke"});
  EXPECT_EQ(ran.code, 0) << ran.out;
  EXPECT_EQ(ran.result.cases.at(0).variants.at(1).failure, "out_of_memory");
  EXPECT_THAT(ran.result.cases[0].variants[1].reason, HasSubstr("of a budget of"));
}

}  // namespace
