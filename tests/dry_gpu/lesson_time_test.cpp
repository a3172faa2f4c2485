// Lessons on a dry GPU whose time is modelled: which speeds a result has, and which it has not and why. How large they
// are depends on this host, too, and is not asked here.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/process.h"
#include "common/result/judge.h"
#include "common/result/result.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

CaseResult run(const std::string& lesson, const std::string& name) {
  const test::Scratch scratch;
  Command command;
  command.arguments = {(test::build_folder() / "lessons" / lesson).string(),
                       "--device",
                       "dry:H100",
                       "--preset",
                       "smoke",
                       "--case",
                       name,
                       "--json",
                       (scratch.path() / "result.json").string()};
  command.environment = {{"TENFOLD_DRY_QUIET", "1"}};
  std::string said;
  Listener listener;
  listener.output = [](const std::string&) {};
  listener.line = [&said](const std::string& line) { said += line + "\n"; };
  EXPECT_EQ(run_child(command, listener).code, 0) << said;
  return read_result(scratch.path() / "result.json").cases.at(0);
}

const SpeedResult& speed_of(const CaseResult& c, const std::string& technique) {
  return verdict_of(c, technique)->speed;
}

TEST(ModelledLesson, HasSpeedsAndSaysWhatBoundsAStep) {
  const CaseResult c = run("12_transfer_overlap", "large images");
  EXPECT_EQ(c.device, "dry");
  EXPECT_GT(rounds_of(c), 0);
  EXPECT_TRUE(speed_of(c, "prefetch to device").ratio.has_value());
  const VariantResult& baseline = c.variants.front();
  EXPECT_EQ(baseline.source, "dry");
  ASSERT_TRUE(baseline.split.has_value());
  EXPECT_GT(baseline.split->copy, 0);
  EXPECT_GT(baseline.split->device, 0);
  EXPECT_EQ(speed_withheld(c, 2), "");
}

TEST(ModelledLesson, OurKernelHasASpeedToo) {
  const CaseResult c = run("45_fused_adamw", "mlp");
  for (const char* const technique : {"fused", "our kernel"}) {
    EXPECT_TRUE(speed_of(c, technique).ratio.has_value()) << technique;
    ASSERT_TRUE(variant_of(c, technique)->split.has_value()) << technique;
    EXPECT_GT(variant_of(c, technique)->split->device, 0) << technique;
  }
}

TEST(ModelledLesson, WhereThreadsLoadNoSpeedIsModelled) {
  const CaseResult c = run("13_sharded_stream", "convnet");
  EXPECT_EQ(rounds_of(c), 0);
  EXPECT_THAT(speed_withheld(c, 2), testing::HasSubstr("threads load"));
  for (const VariantResult& variant : c.variants) {
    EXPECT_FALSE(variant.split.has_value()) << variant.name;
    if (variant.status == "ok") EXPECT_TRUE(variant.peak().has_value()) << variant.name;
  }
}

}  // namespace
}  // namespace tenfold
