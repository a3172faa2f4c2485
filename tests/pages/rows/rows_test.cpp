#include "common/pages/rows/rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/pages/rows/case_words.h"
#include "common/pages/rows/quality_words.h"
#include "common/pages/rows/verdict_json.h"
#include "common/pages/rows/verdict_words.h"

#include "tests/support/sample.h"

namespace tenfold {
namespace {

TEST(Rows, ACaseHasSpeedMemoryAndAgreement) {
  const Result result = sample_result();
  const CaseRows rows = rows_of(result.cases[0]);
  EXPECT_TRUE(rows.judged);
  ASSERT_EQ(rows.rows.size(), 4U);
  EXPECT_EQ(rows.rows[0].verdict, nullptr);
  EXPECT_EQ(rows.rows[0].at(Column::speed).text, "baseline");
  EXPECT_EQ(rows.rows[0].at(Column::predicted_peak).text, "391 MiB, error -2.4 %");
  const VariantRow& technique = rows.rows[1];
  EXPECT_EQ(&technique.speed(), &technique.at(Column::speed));
  EXPECT_EQ(technique.speed().tone, Tone::slower);
  EXPECT_EQ(technique.at(Column::memory).text, "SMALLER 0.250x");
  EXPECT_EQ(technique.at(Column::memory).tone, Tone::smaller);
  EXPECT_EQ(technique.at(Column::quality).text, "") << "a column that it has not";
  EXPECT_EQ(reason_text(*rows.rows[3].variant), "skipped: needs a CUDA device");
}

// Told by the margin on both sides: what is surely better by next to nothing is as good.
TEST(Rows, AQualityBeyondTheMarginIsBetter) {
  const QualityResult lower{.label = "NOT WORSE", .difference = -1.4, .low = -1.8, .high = -0.9, .margin = 0.5};
  EXPECT_EQ(quality_verdict_text(lower, Better::lower), "BETTER -1.400 [-1.800, -0.900]");
  EXPECT_EQ(quality_label(lower, Better::higher), "NOT WORSE") << "of a metric of which more is better";
  QualityResult quality{.label = "NOT WORSE", .difference = 1.4, .low = 0.9, .high = 1.8, .margin = 0.5};
  EXPECT_EQ(quality_label(quality, Better::higher), "BETTER");
  quality.margin = 1;
  EXPECT_EQ(quality_label(quality, Better::higher), "NOT WORSE") << "better by less than the margin, perhaps";
  quality = {.label = "NOT WORSE", .difference = 1.4, .margin = 0.5};
  EXPECT_EQ(quality_label(quality, Better::higher), "NOT WORSE") << "one seed has no interval";
  quality = {.label = "WORSE", .difference = 1.4, .low = 0.9, .high = 1.8, .margin = 0.5};
  EXPECT_EQ(quality_label(quality, Better::lower), "WORSE");
}

TEST(Rows, ABetterTrainingsCellIsGreen) {
  Result result = sample_training();
  CaseResult& c = result.cases[0];
  c.verdicts[0].quality = QualityResult{
      .label = "NOT WORSE", .difference = -0.09, .low = -0.1, .high = -0.08, .margin = 0.02, .seeds = 6, .reached = 6};
  const Cell cell = rows_of(c).rows[1].agreement();
  EXPECT_EQ(cell.text, "BETTER -0.0900 [-0.1000, -0.0800]");
  EXPECT_EQ(cell.tone, Tone::faster);
}

TEST(Rows, ADryCaseHasNoTimes) {
  const Result result = sample_dry_result();
  const CaseRows rows = rows_of(result.cases[0]);
  EXPECT_FALSE(rows.has(Column::speed));
  EXPECT_FALSE(rows.has(Column::rate));
  EXPECT_EQ(rows.rows[0].at(Column::memory).text, "baseline");
  const auto asked = std::ranges::find(rows.rows[0].facts, "asked of the card in a step", &Fact::name);
  ASSERT_NE(asked, rows.rows[0].facts.end());
  EXPECT_EQ(asked->text, "730 launches, 2 calls that may wait, 4.00 KiB to the card");
}

TEST(Rows, AModelledTimeSaysSo) {
  const Result result = sample_modelled_result();
  const CaseRows rows = rows_of(result.cases[0]);
  for (const Heading& heading : rows.headings) {
    if (heading.column == Column::speed || heading.column == Column::rate)
      EXPECT_TRUE(heading.text.ends_with(", modelled")) << heading.text;
  }
  EXPECT_TRUE(rows.has(Column::speed));
  EXPECT_EQ(rows.rows[0].at(Column::speed).text, "baseline");
  EXPECT_TRUE(rounds_text(result.cases[0]).ends_with(" by the card's modelled clock"));
}

// Another host has another ratio.
TEST(Rows, AStepThatIsAFifthTheHostsIsMarked) {
  VariantResult busy, waiting;
  busy.split = Split{.host = 0.1, .device = 0.9};
  waiting.split = Split{.host = 0.2, .device = 0.8};
  EXPECT_EQ(host_mark(busy, busy), "");
  EXPECT_EQ(host_mark(waiting, busy), " (host)");
  EXPECT_EQ(host_mark(busy, waiting), " (host)") << "the baseline's counts as well";
  EXPECT_EQ(host_mark({}, {}), "") << "not split";
}

TEST(Rows, ATrainingHasQualityAndTheTimeToIt) {
  Result result = sample_training();
  CaseResult& c = result.cases[0];
  const CaseRows rows = rows_of(c);
  EXPECT_TRUE(rows.has(Column::quality));
  EXPECT_FALSE(rows.has(Column::speed));
  EXPECT_EQ(&rows.rows[1].speed(), &rows.rows[1].at(Column::time_to_quality));
  EXPECT_EQ(&rows.rows[1].agreement(), &rows.rows[1].at(Column::against_baseline));
  EXPECT_EQ(rows.rows[1].agreement().tone, Tone::same);
  EXPECT_EQ(rows.rows[2].agreement().tone, Tone::slower);

  c.verdicts[0].quality->at_once = 3;
  c.verdicts[0].speed = {.label = "UNDECIDED"};
  const Cell time = rows_of(c).rows[1].speed();
  EXPECT_EQ(time.text, "UNDECIDED");
  EXPECT_EQ(with_detail(time), "UNDECIDED: in 3 of 6 seeds the baseline is there at its first evaluation");
}

TEST(Rows, ASurveyHasFactsAndNoVerdicts) {
  Result result = sample_result();
  result.cases[0].kind = "survey";
  const CaseRows rows = rows_of(result.cases[0]);
  EXPECT_FALSE(rows.judged);
  EXPECT_TRUE(verdict_rows({&result, 1}).empty());
  const auto is_note = [](const Fact& fact) { return fact.of == Fact::Of::note && fact.name == "wait"; };
  const auto note = std::ranges::find_if(rows.rows[0].facts, is_note);
  ASSERT_NE(note, rows.rows[0].facts.end());
  EXPECT_EQ(note->text, "1.20 ms");
}

TEST(Rows, APageShowsComparisonsFirst) {
  Result result = sample_training();
  result.cases.insert(result.cases.begin(), sample_result().cases[0]);
  result.cases.insert(result.cases.begin(), result.cases[0]);
  result.cases[0].kind = "survey";
  std::vector<std::string> kinds;
  for (const CaseRows& rows : rows_in_page_order(result)) kinds.push_back(rows.c->kind);
  EXPECT_EQ(kinds, (std::vector<std::string>{"comparison", "training", "survey"}));
}

TEST(Rows, AnUnknownKindIsRefused) {
  Result result = sample_result();
  result.cases[0].kind = "other";
  EXPECT_THROW(rows_of(result.cases[0]), std::invalid_argument);
}

TEST(VerdictJson, AnObjectForEachTechnique) {
  const nlohmann::ordered_json verdicts = verdicts_json({sample_result()});
  ASSERT_EQ(verdicts.size(), 3U);
  EXPECT_EQ(verdicts[0]["technique"], "accumulate");
  EXPECT_EQ(verdicts[0]["speed"], "SLOWER");
  EXPECT_DOUBLE_EQ(verdicts[0]["memory_ratio"], 0.25);
  EXPECT_EQ(verdicts[0]["speed_interval"].size(), 2U);
  EXPECT_EQ(verdicts[0]["as_expected"]["speed"], true);
  EXPECT_EQ(verdicts[1]["as_expected"]["caught"], true);
  EXPECT_FALSE(verdicts[1].contains("speed_ratio"));
}

TEST(VerdictJson, OfATrainingItsQuality) {
  Result training = sample_training();
  const Verdict& verdict = training.cases.back().verdicts.front();
  ASSERT_TRUE(verdict.quality && verdict.as_expected.quality);
  const nlohmann::ordered_json verdicts = verdicts_json({training});
  const auto written =
      std::ranges::find_if(verdicts, [&](const auto& json) { return json["case"] == training.cases.back().name; });
  ASSERT_NE(written, verdicts.end());
  EXPECT_EQ((*written)["quality"], verdict.quality->label);
  EXPECT_EQ((*written)["as_expected"]["quality"], *verdict.as_expected.quality);
}

}  // namespace
}  // namespace tenfold
