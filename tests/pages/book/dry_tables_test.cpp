// What GPUs that are not there have counted, on pages: apart from what was measured.
#include "common/pages/book/dry_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/text.h"
#include "common/pages/book/dry_peaks.h"
#include "common/pages/book/generated.h"
#include "common/pages/rows/terminal_table.h"

#include "tests/support/sample.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

TEST(DryTables, ALessonsPageShowsEachCardsPeakAndWhatAStepAsks) {
  const std::vector<Result> dry = {sample_dry_result("H100"), sample_dry_result("T4", 16)};
  const std::string page = dry_markdown(dry, dry[0].lesson, dry[0].code_hash, "../../docs");
  EXPECT_THAT(page, HasSubstr("**R2 batch=4**: layers=2; T4, H100 (gpu80).")) << "the smaller card first";
  EXPECT_THAT(page, HasSubstr("| variant | T4, H100 | largest prediction error | launches (H100) |"));
  EXPECT_THAT(page, HasSubstr("95.4 MiB, SMALLER 0.250x"));
  EXPECT_THAT(page, HasSubstr("| -3.8 % |"));
  EXPECT_THAT(page, HasSubstr("| 730 | 2 | 4.00 KiB | agrees 2.1e-07 |"));
  EXPECT_THAT(page, HasSubstr("| zeroes every micro-batch | not counted | not predicted | not counted |"));
  EXPECT_THAT(page, HasSubstr("trap caught"));
  EXPECT_THAT(page, HasSubstr("Skipped: *on a GPU*: needs a CUDA device\n"));
  EXPECT_THAT(page, Not(HasSubstr("| on a GPU |")));
  EXPECT_THAT(page, Not(HasSubstr("items/s")));
  EXPECT_THAT(page, Not(HasSubstr("stale")));
  EXPECT_THAT(page, Not(HasSubstr("At least"))) << "no row says so";
  EXPECT_THAT(dry_markdown(dry, dry[0].lesson, "other code", "docs"), HasSubstr("stale"));
  EXPECT_EQ(dry_markdown(dry, "31_other", "", "docs"), "");
}

TEST(DryTables, CardsThatDifferHaveColumnsOfTheirOwnAndSayWhatTheyRan) {
  std::vector<Result> dry = {sample_dry_result("H100"), sample_dry_result("A100"), sample_dry_result("T4", 16)};
  CaseResult& small = dry[2].cases[0];
  small.size = "gpu8", small.settings["layers"] = int64_t{1};
  small.variants[1].peak_bytes["allocated"] = 90'000'000;
  small.variants[1].peak_bytes["reserved"] = int64_t{96} << 20;
  const std::string page = dry_markdown(dry, dry[0].lesson, dry[0].code_hash, "docs");
  EXPECT_THAT(page, HasSubstr("**R2 batch=4**: T4 (gpu8): layers=1; H100, A100 (gpu80): layers=2."));
  EXPECT_THAT(page, HasSubstr("| variant | T4 | H100, A100 | largest prediction error |"));
  EXPECT_THAT(page, HasSubstr("| -13 % (T4) |"));
  EXPECT_THAT(page, HasSubstr("Reserved, at most: 96.0 MiB on T4.\n"));
}

TEST(DryTables, ASpeedIsModelledForEachCard) {
  const std::vector<Result> dry = {sample_modelled_result("H100"), sample_modelled_result("T4", 16)};
  const std::string page = dry_markdown(dry, dry[0].lesson, dry[0].code_hash, "docs");
  const std::string ratio = human_ratio(*dry[0].cases[0].verdicts[0].speed.ratio);
  EXPECT_THAT(page, HasSubstr("| speed, modelled: T4 / H100 | most of the step (H100) |"));
  EXPECT_THAT(page, HasSubstr("| " + ratio + " / " + ratio + " |"));
  EXPECT_THAT(page, HasSubstr("memory and agreement, speed modelled."));
  EXPECT_THAT(page, HasSubstr("no card has confirmed it"));
}

// The widest intervals are those of a host that was disturbed: such a ratio must not look like its neighbours.
TEST(DryTables, AnUndecidedRatioSaysSoAndHasItsInterval) {
  std::vector<Result> dry = {sample_modelled_result("H100"), sample_modelled_result("T4", 16)};
  const std::string ratio = human_ratio(*dry[0].cases[0].verdicts[0].speed.ratio);
  dry[0].cases[0].verdicts[0].speed = {"AMBIGUOUS", 1.4, 0.892, 2.18};
  EXPECT_THAT(dry_markdown(dry, dry[0].lesson, dry[0].code_hash, "docs"),
              HasSubstr("| " + ratio + " / AMBIGUOUS 1.40x [0.892, 2.18] |"));
}

// The line that shows without opening a fold must have a number where anything was counted.
TEST(DryTables, WhereTheHeadlineWasNotCountedTheFirstRowThatWasStandsInIt) {
  Result dry = sample_dry_result();
  const auto page = [&] { return dry_markdown({dry}, dry.lesson, dry.code_hash, "docs"); };
  dry.headline = Headline{.case_name = dry.cases[0].name, .technique = "on a GPU"};
  const std::string line = "*accumulate* in *R2 batch=4*: 95.4 MiB, SMALLER 0.250x on H100";
  EXPECT_THAT(page(), HasSubstr(line)) << "the headline was skipped";
  dry.headline->case_name = "quality";
  EXPECT_THAT(page(), HasSubstr(line)) << "a training has no peak, or did not run";
  dry.cases.insert(dry.cases.begin(), dry.cases[0]);
  dry.cases[0].name = "small", dry.headline = Headline{.case_name = "R2 batch=4", .technique = "on a GPU"};
  EXPECT_THAT(page(), HasSubstr(line)) << "of the headline's case before others";
  dry.cases.erase(dry.cases.begin());
  dry.cases[0].variants[1].expected->kind = "mistake";
  EXPECT_THAT(page(), Not(HasSubstr(line))) << "what a lesson warns of does not stand for it";
}

TEST(DryTables, ASpeedByAnEarlierModelIsCalledThat) {
  std::vector<Result> dry = {sample_modelled_result("H100"), sample_modelled_result("T4", 16),
                             sample_dry_result("A100", 90)};
  dry[1].commit = dry[2].commit = std::string(40, 'c');
  const std::string page = dry_markdown(dry, dry[0].lesson, dry[0].code_hash, "docs", nullptr, {dry[1].commit});
  EXPECT_THAT(page, ContainsRegex("[.] T4: on [^;]*, commit cccccccccc, [*]earlier model[*]; H100: on [^;]*, commit "
                                  "bbbbbbbbbb; A100: on [^;]*, commit cccccccccc[.]\n"));
}

// A ratio that the host decides changes from card to card where the host does.
TEST(DryTables, CardsOfSeveralHostsSayWhoseRatiosTheHostDecides) {
  std::vector<Result> dry = {sample_modelled_result("H100"), sample_modelled_result("T4", 16)};
  const auto page = [&] { return dry_markdown(dry, dry[0].lesson, dry[0].code_hash, "docs"); };
  const std::string line = "\n*(host)*: T4 on a slow CPU; H100 on a fast CPU. Between two hosts such ratios differ by";
  dry[0].machine.cpu = "a fast CPU", dry[1].machine.cpu = "a slow CPU";
  EXPECT_THAT(page(), Not(HasSubstr("Between two hosts"))) << "no ratio is marked";
  dry[1].cases[0].variants[1].split = Split{.host = 0.1, .device = 0.3};
  EXPECT_THAT(page(), HasSubstr(line));
  dry[1].machine.cpu = "a fast CPU";
  EXPECT_THAT(page(), Not(HasSubstr("Between two hosts")));
}

TEST(DryTables, ATrapThatTheCpuCaughtIsCaughtThoughTheCardSkipsIt) {
  Result dry = sample_dry_result();
  VariantResult& trap = dry.cases[0].variants[2];
  trap.status = "skipped", trap.reason = "needs values", trap.failure = "";
  EXPECT_THAT(dry_markdown({dry}, dry.lesson, dry.code_hash, "docs"),
              ContainsRegex("zeroes every micro-batch .*trap caught"));
  trap.expected->kind = "technique";
  EXPECT_THAT(dry_markdown({dry}, dry.lesson, dry.code_hash, "docs"), HasSubstr("| DIFFERS 3.0e-02 |"));
}

// Two cases that differ on a CPU may have one size on a card.
TEST(DryTables, ACaseThatIsAnotherOnTheCardStandsOnce) {
  std::vector<Result> dry = {sample_dry_result("H100"), sample_dry_result("T4", 16)};
  for (Result& card : dry) {
    card.cases.push_back(card.cases[0]);
    card.cases[1].name = "GPT-2 vocabulary";
  }
  const auto page = [&] { return dry_markdown(dry, dry[0].lesson, dry[0].code_hash, "docs"); };
  EXPECT_THAT(page(), HasSubstr("\n**GPT-2 vocabulary**: on a card the same as *R2 batch=4*.\n"));
  dry[1].cases[1].variants[1].peak_bytes["allocated"] += 1;
  EXPECT_THAT(page(), HasSubstr("**GPT-2 vocabulary**: batch=4, layers=2; T4, H100 (gpu80)."))
      << "one card tells them apart";
  for (Result& card : dry) {
    for (CaseResult& c : card.cases) {
      for (VariantResult& variant : c.variants) variant.peak_bytes.clear();
    }
  }
  EXPECT_THAT(page(), Not(HasSubstr("the same as"))) << "of what a card counted nothing it is not known";
}

TEST(DryTables, EachCardsBudgetIsNamed) {
  std::vector<Result> dry = {sample_dry_result("H100"), sample_dry_result("T4", 16)};
  for (Result& result : dry) {
    result.cases[0].budget = Budget{result.machine.gpus[0].memory_bytes / 8, "batch"};
    result.cases[0].variants[1].budget_value = int64_t{6};
  }
  const std::string page = dry_markdown(dry, dry[0].lesson, dry[0].code_hash, "docs");
  EXPECT_THAT(page, HasSubstr("T4 (gpu80): each variant at the largest batch that 2.00 GiB allow; H100 (gpu80): each"));
  EXPECT_THAT(page, HasSubstr("95.4 MiB, batch=6"));
}

TEST(DryTables, AVariantThatFailedSaysWhy) {
  std::vector<Result> dry = {sample_dry_result("H100"), sample_dry_result("T4", 16)};
  VariantResult& failed = dry[1].cases[0].variants[1];
  failed.status = "invalid", failed.failure = "error", failed.reason = "no kernel found to launch";
  failed.peak_bytes.clear();
  const std::string page = dry_markdown(dry, dry[0].lesson, dry[0].code_hash, "docs");
  EXPECT_THAT(page, HasSubstr("| accumulate | failed | 95.4 MiB, SMALLER 0.250x |"));
  EXPECT_THAT(page, HasSubstr("Failed: *accumulate*: no kernel found to launch (T4)\n"));
}

TEST(DryTables, EachReasonIsSaidOnceAndAColumnOfPredictionsNeedsOne) {
  Result dry = sample_dry_result();
  CaseResult& c = dry.cases[0];
  c.variants.push_back(c.variants.back());
  c.variants.back().name = "on two GPUs";
  for (VariantResult& variant : c.variants) variant.predicted.peak_bytes.reset();
  const std::string page = dry_markdown({dry}, dry.lesson, dry.code_hash, "docs");
  EXPECT_THAT(page, HasSubstr("Skipped: *on a GPU*, *on two GPUs*: needs a CUDA device\n"));
  EXPECT_THAT(page, HasSubstr("| variant | H100 | launches (H100) |"));
}

TEST(DryTables, ASurveyThatOnlyACardRunsIsNotFolded) {
  Result dry = sample_dry_result();
  CaseResult counted = dry.cases[0];
  counted.name = "counted", counted.kind = "survey", counted.verdicts.clear();
  dry.cases.push_back(counted);
  Result measured = dry;
  const auto folded = [&] {
    const std::string page = dry_markdown({dry}, dry.lesson, dry.code_hash, "docs", &measured);
    const size_t survey = page.find("On the H100: **counted**");
    EXPECT_NE(survey, std::string::npos) << page;
    return survey > page.find("Every case on every card");
  };
  EXPECT_TRUE(folded()) << "the other machine ran it";
  for (VariantResult& look : measured.cases.back().variants) look.status = "skipped";
  EXPECT_FALSE(folded());
  measured.cases.pop_back();
  EXPECT_TRUE(folded()) << "nobody knows whether the other machine could run it";
}

TEST(DryTables, PredictionsOfAllLessonsByCard) {
  const std::string table = dry_peaks_markdown({sample_dry_result("H100"), sample_dry_result("T4", 16)});
  EXPECT_THAT(
      table,
      HasSubstr("| H100 | NVIDIA H100 | 1 | 2 | 3.1 % | -3.8 % | 30 accumulate (R2 batch=4) | 1 of 1 | 1 of 1 |"));
  EXPECT_THAT(table, HasSubstr("- 30 accumulate (R2 batch=4): -3.8 % on H100, T4"));
  EXPECT_EQ(dry_peaks_markdown({}), "Not yet counted.\n");
}

TEST(DryTables, TheTerminalShowsNoSpeed) {
  const std::string table = format_table(sample_dry_result());
  EXPECT_THAT(table, HasSubstr("A dry GPU: no such card is here."));
  EXPECT_THAT(table, Not(HasSubstr("items/s")));
  EXPECT_THAT(table, Not(HasSubstr("UNDECIDED")));
  EXPECT_THAT(table, HasSubstr("memory as expected"));
  EXPECT_THAT(table, Not(HasSubstr("speed")));
}

TEST(DryTables, APeakWithoutAWorkspaceIsAtLeastThat) {
  Result result = sample_dry_result();
  result.cases[0].variants[1].environment[kPeakAtLeast] = "cuDNN's workspaces";
  EXPECT_THAT(format_table(result), HasSubstr("at least 95.4 MiB"));
  EXPECT_THAT(format_table(result), HasSubstr("At least: what cuDNN would take"));
  EXPECT_THAT(format_table(sample_dry_result()), Not(HasSubstr("At least")));
  EXPECT_THAT(dry_markdown({result}, result.lesson, result.code_hash, "docs"), HasSubstr("*At least*: cuDNN's"));
}

TEST(DryTables, NoPageTakesThemForMeasured) {
  const test::Scratch scratch;
  for (const Result& result : {sample_result(), sample_dry_result()})
    write_result(scratch.path() / "results" / result.machine.id / (result.lesson + ".json"), result);
  ASSERT_EQ(published_results(scratch.path()).size(), 1u);
  EXPECT_EQ(published_results(scratch.path())[0].machine.id, "2x-sample-cpu");
  ASSERT_EQ(dry_results(scratch.path()).size(), 1u);
  EXPECT_EQ(dry_results(scratch.path())[0].machine.id, "dry-H100");
}

}  // namespace
}  // namespace tenfold
