// What was said of a card against what the card measured, and the seal that keeps what was said.
#include "common/result/score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/files.h"
#include "common/result/judge.h"
#include "common/result/seal.h"
#include "tests/support/sample.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

/// The same settings on a card.
Result measured() {
  Result result = sample_modelled_result();
  result.machine.id = "h100-80gb-hbm3";
  CaseResult& c = result.cases[0];
  c.device = "cuda";
  for (VariantResult& variant : c.variants) variant.source = "measured";
  judge(c);
  return result;
}

const ScoredRow& row_of(const Score& score, const std::string& variant) {
  return *std::ranges::find(score.rows, variant, &ScoredRow::variant);
}

TEST(Score, WhatCameAsItWasSaidIsInside) {
  const Score all = score({sample_modelled_result()}, {measured()});
  const ScoredRow& row = row_of(all, "accumulate");
  EXPECT_EQ(row.inside(), true);
  EXPECT_NEAR(*row.miss(), 0, 1e-9);
  EXPECT_NEAR(*row.peak_error(), 0, 1e-9);
  EXPECT_FALSE(row_of(all, "large batch").miss().has_value()) << "a baseline has no ratio";
  EXPECT_TRUE(row_of(all, "large batch").peak_error().has_value());
  EXPECT_EQ(all.inside(), all.speeds().size());
  EXPECT_EQ(all.same_sign(), all.speeds().size());
  EXPECT_NEAR(*all.median_miss(), 0, 1e-9);
  EXPECT_THAT(all.refused, testing::Contains(testing::Field(&RefusedRow::row, testing::HasSubstr("on a GPU"))))
      << "what was skipped is named";
}

TEST(Score, AFasterTechniqueIsOutsideAndAMissInEitherDirection) {
  for (const double times : {2.0, 0.5}) {
    Result card = measured();
    VariantResult& technique = *std::ranges::find(card.cases[0].variants, "accumulate", &VariantResult::name);
    speed_up(technique, times);
    for (auto& [kind, bytes] : technique.peak_bytes) bytes *= 2;
    judge(card.cases[0]);
    const Score all = score({sample_modelled_result()}, {card});
    const ScoredRow& row = row_of(all, "accumulate");
    EXPECT_EQ(row.inside(), false);
    EXPECT_NEAR(*row.miss(), 1, 0.01);
    EXPECT_NEAR(*row.peak_error(), -0.5, 1e-6);
    EXPECT_LT(all.inside(), all.speeds().size());
  }
}

TEST(Score, OtherSettingsAndVersionsAreNotScored) {
  Result card = measured();
  card.lesson_version += 1;
  const Score all = score({sample_modelled_result()}, {card});
  EXPECT_TRUE(all.rows.empty());
  EXPECT_FALSE(all.median_miss().has_value());
  EXPECT_EQ(all.refused.size(), 2 * card.cases[0].variants.size()) << "on both sides";
}

TEST(Seal, HoldsForWhatItSealedAlone) {
  const test::Scratch scratch;
  EXPECT_THROW(check_seal(scratch.path()), FileError);
  write_atomically(scratch.path() / "10_one.json", "one");
  write_atomically(scratch.path() / kSealFile, seal_of(sealed_texts(scratch.path())));
  const std::string seal = check_seal(scratch.path());
  EXPECT_EQ(seal.size(), 64U);
  write_atomically(scratch.path() / "10_one.json", "two");
  EXPECT_THROW(check_seal(scratch.path()), FileError) << "changed";
  write_atomically(scratch.path() / "10_one.json", "one");
  EXPECT_EQ(check_seal(scratch.path()), seal);
  write_atomically(scratch.path() / "11_two.json", "two");
  EXPECT_THROW(check_seal(scratch.path()), FileError) << "one more";
}

}  // namespace
}  // namespace tenfold
