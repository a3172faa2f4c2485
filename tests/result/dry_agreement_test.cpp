// Two runs on a dry GPU as one result.
#include "common/result/dry_agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/result/judge.h"

namespace tenfold {
namespace {

using testing::HasSubstr;

VariantResult variant(const std::string& name, int64_t peak) {
  VariantResult made;
  made.name = name;
  made.source = "dry";
  made.peak_bytes["requested"] = peak;
  return made;
}

/// A baseline, a technique that halves the peak, a trap that does so too.
Result memory_run() {
  CaseResult c;
  c.name = "gpt", c.size = "gpu80", c.device = "dry";
  c.variants = {variant("eager", 1000), variant("technique", 500), variant("trap", 500)};
  c.variants[2].expected = Expected{.kind = "trap"};
  judge(c, 2);
  Result result;
  result.cases = {c};
  return result;
}

/// The same at size cpu, where the technique deviates so far, and the trap more than is allowed.
Result checked_run(double deviates, bool trap_caught = true) {
  Result result = memory_run();
  CaseResult& c = result.cases[0];
  c.size = "cpu";
  if (trap_caught) {
    c.variants[2].status = "invalid", c.variants[2].failure = "disagrees", c.variants[2].reason = "loss deviates";
  }
  c.verdicts[0].agreement = AgreementResult{.pass = deviates < 1e-4, .rule = "to 1e-4", .worst = deviates};
  if (deviates >= 1e-4) {
    c.variants[1].status = "invalid", c.variants[1].failure = "disagrees", c.variants[1].reason = "norm deviates";
  }
  c.verdicts[1].agreement = AgreementResult{.pass = !trap_caught, .rule = "to 1e-4", .worst = trap_caught ? 1 : 0};
  return result;
}

TEST(WithAgreement, MemoryIsTheCardsAndAgreementWorstOverBothOrders) {
  const Result all = with_agreement(memory_run(), {{"late", checked_run(1e-6)}, {"early", checked_run(2e-6)}});
  const CaseResult& c = all.cases[0];
  EXPECT_EQ(c.size, "gpu80");
  const Verdict& technique = c.verdicts[0];
  EXPECT_EQ(technique.memory.label, "SMALLER");
  EXPECT_DOUBLE_EQ(*technique.memory.ratio, 0.5);
  EXPECT_DOUBLE_EQ(*technique.agreement->worst, 2e-6);
  EXPECT_THAT(technique.agreement->rule, HasSubstr("at size cpu, streams late and early"));
  EXPECT_EQ(c.verdicts[1].as_expected.caught, true);
  EXPECT_EQ(c.verdicts[1].memory.ratio, std::nullopt) << "what is wrong has no ratio";
  EXPECT_TRUE(c.variants[2].peak_bytes.empty());
  EXPECT_TRUE(all_well(c));
}

TEST(WithAgreement, WhatOneOrderFindsWrongIsInvalid) {
  const Result all = with_agreement(memory_run(), {{"late", checked_run(0)}, {"early", checked_run(0.5)}});
  const CaseResult& c = all.cases[0];
  EXPECT_EQ(c.variants[1].status, "invalid");
  EXPECT_EQ(c.variants[1].reason, "norm deviates (size cpu, streams early)");
  EXPECT_FALSE(c.verdicts[0].agreement->pass);
  EXPECT_FALSE(all_well(c));
}

TEST(WithAgreement, ATrapThatAgreesIsNotCaught) {
  const Result all = with_agreement(memory_run(), {{"late", checked_run(0, /*trap_caught=*/false)}});
  EXPECT_EQ(all.cases[0].verdicts[1].as_expected.caught, false);
  EXPECT_FALSE(all_well(all.cases[0]));
}

TEST(WithAgreement, WhatWasNotCheckedSaysSo) {
  Result checked = checked_run(0);
  checked.cases[0].variants[1].status = "skipped", checked.cases[0].variants[1].reason = "needs 2 GPUs";
  checked.cases[0].verdicts[0].agreement.reset();
  const Result all = with_agreement(memory_run(), {{"late", checked}});
  EXPECT_EQ(all.cases[0].variants[1].environment.at("agreement"), "not checked: needs 2 GPUs");
  EXPECT_FALSE(all.cases[0].verdicts[0].agreement.has_value());
}

}  // namespace
}  // namespace tenfold
