// What stacked levers bring, from blocks and curves whose true gains are known.
#include "common/result/lever_gains.h"
#include "common/result/judge.h"

#include <gtest/gtest.h>

#include "tests/support/sample.h"

namespace tenfold {
namespace {

VariantResult timed(const std::string& name, double seconds, double wobble = 0.004) {
  VariantResult variant;
  variant.name = name;
  variant.blocks = {sample_blocks(seconds, 12, wobble)};
  return variant;
}

/// workers 2x, sharding not run, stopping in a training, ranks 1.5x on top; without workers all would be half as fast.
CaseResult stacks() {
  CaseResult c;
  c.name = "pictures";
  c.variants = {timed("naive", 6),          timed("+ workers", 3),      {}, {},
                timed("+ ranks", 2, 0.001), timed("all but workers", 4)};
  c.variants[0].blocks.push_back(c.variants[0].blocks[0]);
  c.variants[2].name = "+ sharding", c.variants[2].status = "skipped", c.variants[2].reason = "not here";
  c.variants[3].name = "+ stopping", c.variants[3].status = "skipped", c.variants[3].reason = "see the training";
  judge(c);
  return c;
}

/// Stopping takes half of the time, and ends with this loss where the naive run's is 1.
CaseResult training(double loss_when_stopped) {
  CaseResult c;
  c.kind = "training";
  c.metric = Metric{.name = "loss", .margin = 0.1};
  for (const char* name : {"naive", "stopping"}) {
    VariantResult& variant = c.variants.emplace_back();
    variant.name = name;
    variant.curves.emplace();
    for (int seed = 0; seed < 6; ++seed) {
      const bool is_naive = std::string(name) == "naive";
      const int64_t seconds = is_naive ? 8 : 4;
      const double loss = (is_naive ? 1 : loss_when_stopped) + 0.001 * seed;
      variant.curves->push_back({.wall_ns = {seconds * 1'000'000'000}, .processor_ns = {1}, .quality = {loss}});
      variant.quality["loss"].push_back(loss);
    }
  }
  judge(c);
  return c;
}

TEST(LeverGains, EachIsComparedWithTheStackBelowIt) {
  const auto gains = lever_gains(stacks(), nullptr);
  ASSERT_EQ(gains.size(), 4U);
  EXPECT_EQ(gains[0].lever, "workers");
  EXPECT_NEAR(gains[0].own.value().middle, 2, 0.02);
  EXPECT_EQ(gains[1].reason, "not here");
  EXPECT_FALSE(gains[1].own || gains[1].so_far);
  EXPECT_NEAR(gains[3].own.value().middle, 1.5, 0.02) << "on top of workers, not of what was not run";
  EXPECT_NEAR(gains[3].so_far.value().middle, 3, 0.03);
  EXPECT_LT(gains[3].so_far->low, 3);
}

TEST(LeverGains, OnTopOfAllOthers) {
  const auto gains = lever_gains(stacks(), nullptr);
  EXPECT_NEAR(gains[0].in_all.value().middle, 2, 0.02) << "4 s without workers, 2 s with them";
  EXPECT_NEAR(gains[3].in_all.value().middle, 1.5, 0.02) << "nothing is on top of it";
}

TEST(LeverGains, SecondsOfAWholeTrainingMultiplyNothing) {
  const CaseResult trained = training(0.98);
  const auto gains = lever_gains(stacks(), &trained);
  EXPECT_FALSE(gains[1].own) << "no such run";
  EXPECT_NEAR(gains[2].own.value().middle, 2, 1e-9);
  EXPECT_NE(gains[2].reason.find("of whole trainings"), std::string::npos);
  EXPECT_FALSE(gains[2].so_far);
  EXPECT_NEAR(gains[3].own.value().middle, 1.5, 0.02) << "of steps";
  EXPECT_NEAR(gains[3].so_far.value().middle, 3, 0.03);
}

TEST(LeverGains, AWorseModelSoonerIsNoGain) {
  const CaseResult trained = training(1.5);
  const auto gains = lever_gains(stacks(), &trained);
  EXPECT_FALSE(gains[2].own);
  EXPECT_NE(gains[2].reason.find("as good"), std::string::npos) << gains[2].reason;
  EXPECT_NEAR(gains[3].so_far.value().middle, 3, 0.03);
}

TEST(LeverGains, OtherCasesHaveNone) {
  EXPECT_TRUE(lever_gains(sample_result().cases[0], nullptr).empty());
  CaseResult none = stacks();
  for (VariantResult& variant : none.variants) variant.blocks.clear();
  judge(none);
  for (const LeverGain& gain : lever_gains(none, nullptr)) EXPECT_FALSE(gain.own || gain.so_far || gain.in_all);
}

}  // namespace
}  // namespace tenfold
