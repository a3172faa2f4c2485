// Techniques of several lessons on one GPT: what counts as the same, and what is left out.
#include "common/pages/book/one_gpt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/sample.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

Result gpt_of(const std::string& lesson) {
  Result result = sample_result();
  result.lesson = lesson;
  result.cases[0].name = "gpt";
  return result;
}

class OneGpt : public testing::Test {
 protected:
  OneGpt() {
    results_ = {gpt_of("21_a"), gpt_of("31_b"), gpt_of("43_c"), gpt_of("44_d")};
    for (const Result& result : results_)
      test::write_text(root_ / "lessons" / result.lesson / "lesson.cpp", "int a;\n");
    // Each technique its own peak, so that rows have an order.
    for (size_t i = 0; i < results_.size(); ++i) {
      CaseResult& c = results_[i].cases[0];
      c.variants[1].peak_bytes["allocated"] = 100'000'000 + static_cast<int64_t>(4 - i) * 20'000'000;
      judge(c);
    }
  }
  std::string text() {
    const Page page{page_, none_, root_, lessons_, results_, dry_, references_, figures_};
    return one_gpt_part(page, {"measured"});
  }
  CaseResult& changed(size_t i) { return results_[i].cases[0]; }
  /// What stands between the headings of the two tables, and what behind the second.
  std::string plain_table() {
    const std::string all = text();
    return all.substr(0, all.find("**Against another step"));
  }
  std::string other_table() {
    const std::string all = text();
    return all.substr(all.find("**Against another step"));
  }

  test::Scratch scratch_;
  fs::path root_ = scratch_.path(), page_ = root_ / "docs" / "one_gpt.md";
  std::string none_;
  std::vector<LessonEntry> lessons_;
  std::vector<Result> results_, dry_, references_;
  std::vector<PageFigure> figures_;
};

TEST_F(OneGpt, TechniquesStandByTheirPeak) {
  const std::string table = plain_table();
  EXPECT_THAT(table,
              HasSubstr("### 2x-sample-cpu\n\nThe GPT: batch=4, dtype=float32, layers=2, preset=quick, seed=1234, "
                        "size=cpu, threads=1.\n"));
  EXPECT_THAT(table, HasSubstr("The plain step ran in 4 lessons: peak 381 MiB, "));
  EXPECT_LT(table.find("[44](../lessons/44_d/README.md) accumulate"), table.find("[43]"));
  EXPECT_LT(table.find("[31]"), table.find("[21]"));
  EXPECT_THAT(table, HasSubstr("| 114 MiB, SMALLER 0.300x | SLOWER 0.80"));
  EXPECT_THAT(table, HasSubstr("<br>agrees 2.1e-07 | "));
  EXPECT_THAT(table, Not(HasSubstr("zeroes every micro-batch"))) << "a trap";
  EXPECT_THAT(table, Not(HasSubstr("on a GPU"))) << "skipped";
  EXPECT_THAT(text(), Not(HasSubstr("Against another step"))) << "an empty table";
}

// The defect that the page must not have: a case that is another one in the same table.
TEST_F(OneGpt, ALessonOfWhichNoTechniqueRanIsNamed) {
  CaseResult& c = changed(3);
  for (size_t i = 1; i < c.variants.size(); ++i) c.variants[i].status = "skipped";
  judge(c);
  EXPECT_THAT(text(), HasSubstr("none of its techniques ran there: [44](../lessons/44_d/README.md)"));
}

TEST_F(OneGpt, AChangedCaseIsLeftOutAndSaysWhat) {
  changed(1).settings["batch"] = int64_t{8};
  changed(2).settings.erase("layers");
  EXPECT_THAT(text(), HasSubstr("since the lesson changes the case: [31](../lessons/31_b/README.md) (batch=8), "
                                "[43](../lessons/43_c/README.md) (layers not stated).\n"));
  EXPECT_THAT(text(), Not(HasSubstr("[31](../lessons/31_b/README.md) accumulate")));
  changed(2).settings["layers"] = int64_t{2}, changed(1).settings["batch"] = int64_t{4};
  changed(1).seed = 1;
  EXPECT_THAT(text(), HasSubstr("(seed=1)"));
  changed(1).seed = 1234, changed(1).settings["scale"] = 65536.0;
  EXPECT_THAT(text(), Not(HasSubstr("changes the case"))) << "a setting of the technique's own";
}

TEST_F(OneGpt, AnotherStepHasATableOfItsOwn) {
  changed(3).variants[0].peak_bytes["allocated"] = 440'000'000;
  judge(changed(3));
  EXPECT_THAT(plain_table(), Not(HasSubstr("[44]")));
  EXPECT_THAT(other_table(), HasSubstr("[44](../lessons/44_d/README.md) accumulate (earlier code)<br>against *large "
                                       "batch*, 420 MiB<br>agrees 2.1e-07 |"));
  changed(3) = gpt_of("44_d").cases[0];
  changed(3).variants[0].losses[2] = 4.31;
  EXPECT_THAT(other_table(), HasSubstr("[44]")) << "the same peak, and other losses";
  changed(3) = gpt_of("44_d").cases[0];
  changed(3).ranks = 2;
  EXPECT_THAT(other_table(), HasSubstr("[44](../lessons/44_d/README.md) accumulate, 2 ranks"));
  changed(2).variants[1].environment["devices"] = "2";
  EXPECT_THAT(plain_table(), HasSubstr("[43](../lessons/43_c/README.md) accumulate, 2 devices"))
      << "its peak is that of one of them";
}

// Most lessons with this GPT run it on several ranks, and their baseline is no plain step of one process.
TEST_F(OneGpt, ThePlainStepIsOneProcessHoweverManyLessonsHaveRanks) {
  for (size_t i = 1; i < 4; ++i) changed(i).ranks = 2, changed(i).variants[0].peak_bytes["allocated"] = 300'000'000;
  EXPECT_THAT(plain_table(), HasSubstr("The plain step ran in 1 lesson: peak 381 MiB, "));
  EXPECT_THAT(plain_table(), HasSubstr("[21](../lessons/21_a/README.md) accumulate"));
  EXPECT_THAT(plain_table(), Not(HasSubstr("as fast in one lesson")));
  EXPECT_THAT(other_table(), HasSubstr("[44](../lessons/44_d/README.md) accumulate, 2 ranks"));
}

TEST_F(OneGpt, AMistakeIsCalledOneAndManySettingsAreCounted) {
  changed(0).variants[1].expected->kind = "mistake";
  EXPECT_THAT(plain_table(), HasSubstr("[21](../lessons/21_a/README.md) accumulate (a mistake)"));
  for (Result& result : results_) {
    for (const char* name : {"heads", "length"}) result.cases[0].settings[name] = int64_t{4};
  }
  changed(1).settings.clear();
  EXPECT_THAT(text(), HasSubstr("[31](../lessons/31_b/README.md) (4 settings not stated)"));
}

// A lesson that judges by another kind of peak runs the same step all the same.
TEST_F(OneGpt, TheKindOfPeakThatIsJudgedMakesNoOtherStep) {
  for (VariantResult& variant : changed(2).variants) {
    if (variant.peak_bytes.empty()) continue;
    variant.judged_peak = "reserved";
    variant.peak_bytes["reserved"] = 2 * variant.peak_bytes["allocated"];
  }
  judge(changed(2));
  EXPECT_THAT(plain_table(), HasSubstr("[43](../lessons/43_c/README.md)"));
}

TEST_F(OneGpt, ACardIsModelled) {
  dry_ = {sample_modelled_result("H100")};
  dry_[0].cases[0].name = "gpt", dry_[0].lesson = "21_a";
  const Page page{page_, none_, root_, lessons_, results_, dry_, references_, figures_};
  EXPECT_THAT(one_gpt_part(page, {"H100"}),
              HasSubstr("| technique, agreement | peak and memory, counted | speed, modelled |"));
  EXPECT_EQ(test::message_of<std::invalid_argument>([&] { one_gpt_part(page, {"B200"}); }),
            "one_gpt: no result is of a B200 that is not there");
  results_.clear();
  EXPECT_EQ(one_gpt_part(page, {"measured"}), "Not yet measured.\n");
}

// What was counted and not timed has another preset, which changes no step.
TEST_F(OneGpt, AStepWithoutATimeIsTheSameStep) {
  dry_ = {sample_modelled_result("H100"), sample_dry_result("H100")};
  dry_[0].cases[0].name = dry_[1].cases[0].name = "gpt", dry_[0].lesson = "21_a", dry_[1].lesson = "31_b";
  const Page page{page_, none_, root_, lessons_, results_, dry_, references_, figures_};
  const std::string text = one_gpt_part(page, {"H100"});
  EXPECT_THAT(text, Not(HasSubstr("changes the case")));
  EXPECT_THAT(text, ContainsRegex("31_b/README.md. accumulate [^\n]*[|] 95.4 MiB, SMALLER 0.250x [|] not timed [|]"));
}

TEST_F(OneGpt, AMachineWithoutTheCaseHasRunLessonsAllTheSame) {
  for (Result& result : results_) result.cases[0].name = "mlp";
  EXPECT_THAT(text(), HasSubstr("### 2x-sample-cpu\n\n4 lessons ran there, none with this case.\n"));
  results_.resize(1);
  EXPECT_THAT(text(), HasSubstr("One lesson ran there, without this case.\n"));
}

// A technique's number in 16 bits must not stand next to another step's in 32.
TEST_F(OneGpt, CasesIn16BitsHaveTheirStepAndTheirTwinIn32Bits) {
  Result autocast = sample_modelled_result("H100"), lesson = autocast, without = autocast;
  autocast.cases[0].name = lesson.cases[0].name = without.cases[0].name = "gpt";
  autocast.lesson = "21_a", lesson.lesson = "31_b", without.lesson = "43_c";
  CaseResult& with_bf16 = autocast.cases[0];
  with_bf16.variants[1].name = with_bf16.verdicts[0].technique = "bf16 autocast";
  with_bf16.variants[1].peak_bytes = {{"requested", 200'000'000}};
  CaseResult in_16 = lesson.cases[0];
  in_16.name = "gpt, 16 bits", in_16.settings["precision"] = "bfloat16";
  in_16.variants[0].peak_bytes = {{"requested", 200'000'000}},
  in_16.variants[1].peak_bytes = {{"requested", 50'000'000}};
  in_16.variants[1].name = in_16.verdicts[0].technique = "accumulate, 16 bits";
  judge(in_16);
  CaseResult wider = in_16;
  wider.name = "wide, 16 bits", wider.settings["layers"] = int64_t{3}, wider.settings["adamw_learning_rate"] = 0.001;
  lesson.cases.push_back(in_16), lesson.cases.push_back(wider);
  dry_ = {autocast, lesson, without};
  const Page page{page_, none_, root_, lessons_, results_, dry_, references_, figures_};
  const std::string text = one_gpt_part(page, {"H100", "16_bits"});
  EXPECT_THAT(text, HasSubstr("The plain step in 16 bits: peak 191 MiB, "));
  EXPECT_THAT(
      text,
      HasSubstr("[31](../lessons/31_b/README.md) accumulate, 16 bits (earlier code)<br>agrees 2.1e-07 | the plain step "
                "in 16 bits | 47.7 MiB, SMALLER 0.250x | SLOWER 0.80"));
  EXPECT_THAT(text, ContainsRegex("the plain step in 16 bits [^\n]*[|] SMALLER 0.250x, SLOWER 0.8[0-9]*x [|]\n"))
      << "the same case in 32 bits";
  EXPECT_THAT(text, ContainsRegex("[*]large batch[*], 191 MiB: layers=3, AdamW [^\n]*[|] - [|]\n"))
      << "another step, and none like it in 32 bits";
  EXPECT_THAT(text, HasSubstr("and not measured in 16: [43](../lessons/43_c/README.md).\n"));
  EXPECT_THAT(one_gpt_part(page, {"H100"}), Not(HasSubstr("16 bits"))) << "the tables of 32 bits";
  EXPECT_THAT(test::message_of<std::invalid_argument>([&] { one_gpt_part(page, {"measured", "16_bits"}); }),
              HasSubstr("one_gpt needs 'measured' or a card"));
  const Page later{page_, none_, root_, lessons_, results_, dry_, references_, figures_, {lesson.commit}};
  EXPECT_THAT(one_gpt_part(later, {"H100", "16_bits"}),
              HasSubstr("accumulate, 16 bits (earlier code and model)<br>agrees 2.1e-07"));
  dry_ = {without};
  EXPECT_EQ(one_gpt_part(page, {"H100", "16_bits"}), "Not yet measured.\n");
}

}  // namespace
}  // namespace tenfold
