// The page to decide from: cells of the lessons' pages beside what was counted, modelled, measured and cited.
#include "common/pages/book/decide_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/text.h"
#include "common/pages/book/first_screen.h"
#include "common/pages/book/links.h"

#include "tests/support/sample.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kScreen =
    "# 30\n\n| use it when | skip it when | you pay | in PyTorch |\n|---|---|---|---|\n"
    "| activations fill it | it fits: [00](../00_measuring/README.md) | launches | `a \\| b(x)` |\n\n## The idea\n";

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  return text.replace(text.find(part), part.size(), by);
}

TEST(FirstScreen, ItsFourCellsAreRead) {
  const FirstScreen screen = first_screen_of(kScreen);
  EXPECT_EQ(screen.use, "activations fill it");
  EXPECT_EQ(screen.skip, "it fits: [00](../00_measuring/README.md)");
  EXPECT_EQ(screen.pay, "launches");
  EXPECT_EQ(screen.line, "`a \\| b(x)`");
}

TEST(FirstScreen, ATableThatLacksAPartIsRefused) {
  const auto complaint = [](const std::string& text) {
    return test::message_of<std::invalid_argument>([&] { first_screen_of(text); });
  };
  EXPECT_EQ(complaint(kScreen), "");
  EXPECT_THAT(complaint(replaced(kScreen, " you pay |", "")), HasSubstr("has no column 'you pay'"));
  EXPECT_THAT(complaint(replaced(kScreen, "| launches |", "| |")), HasSubstr("says nothing in column 'you pay'"));
  EXPECT_THAT(complaint(replaced(kScreen, "# 30\n", "## The idea\n")), HasSubstr("has no table '| use it when"));
}

TEST(Links, AreThoseOfTheOtherPage) {
  const fs::path from = "/t/lessons/30_x/README.md", to = "/t/docs/decide.md";
  EXPECT_EQ(relinked("a [b](../00_y/README.md), [c](../../docs/glossary.md#host) d", from, to),
            "a [b](../lessons/00_y/README.md), [c](glossary.md#host) d");
  EXPECT_EQ(relinked("[here](#inside)", from, to), "[here](../lessons/30_x/README.md#inside)");
  EXPECT_EQ(relinked("[web](https://a.b/c), `f[0](x)`", from, to), "[web](https://a.b/c), `f[0](x)`");
}

class DecidePage : public testing::Test {
 protected:
  DecidePage() { test::write_text(root_ / "lessons/30_gradient_accumulation/README.md", kScreen); }
  std::string part(const std::string& card = "H100", const std::string& number = "30") {
    const Page page{page_, text_, root_, lessons_, published_, dry_, references_, figures_, earlier_models_};
    return decide_markdown(page, {card, number});
  }
  std::string complaint(const std::string& card, const std::string& number) {
    return test::message_of<std::invalid_argument>([&] { part(card, number); });
  }
  test::Scratch scratch_;
  fs::path root_ = scratch_.path(), page_ = root_ / "docs" / "decide.md";
  std::string text_;
  std::vector<LessonEntry> lessons_ = {{"30_gradient_accumulation", "Gradient accumulation", "How much?", "R2", false}};
  std::vector<Result> published_ = {sample_result()}, references_;
  std::vector<Result> dry_ = {sample_modelled_result("H100"), sample_modelled_result("T4", 16)};
  std::vector<PageFigure> figures_;
  std::set<std::string> earlier_models_;
};

TEST_F(DecidePage, ALessonHasItsCellsAndTheCardsNumbers) {
  const std::string text = part();
  EXPECT_THAT(text,
              HasSubstr("| lesson | use it when | H100: memory counted, speed modelled; what others published |\n"));
  EXPECT_THAT(text,
              HasSubstr("| [30 Gradient accumulation](../lessons/30_gradient_accumulation/README.md)<br>"
                        "*accumulate* against *large batch*, case *R2 batch=4* | activations fill it<br>*Not "
                        "when* it fits: [00](../lessons/00_measuring/README.md) | *earlier code:*<br>memory SMALLER "
                        "0.250x<br>speed SLOWER 0.80"));
  EXPECT_THAT(text, HasSubstr("- *You pay*: launches.\n- *In PyTorch*: `a \\| b(x)`.\n"));
  EXPECT_THAT(text,
              HasSubstr("- *Memory*, counted: SMALLER 0.250x on T4 (earlier code), H100 (earlier code). Measured: "
                        "SMALLER 0.250x on 2x-sample-cpu (earlier code).\n"));
  EXPECT_THAT(text, HasSubstr("- *Speed*, modelled: SLOWER 0.80"));
  EXPECT_THAT(text, Not(HasSubstr("Published elsewhere")));
}

TEST_F(DecidePage, ASpeedByAnEarlierModelIsCalledThatAndMemoryIsNot) {
  EXPECT_THAT(part(), Not(HasSubstr("model)")));
  dry_[0].commit = std::string(40, 'c');
  earlier_models_ = {dry_[0].commit};
  EXPECT_THAT(part(), ContainsRegex("<br>memory SMALLER 0.250x<br>speed SLOWER 0.8[0-9]*x .earlier model. [|]"));
  EXPECT_THAT(part(), HasSubstr("0.250x on T4 (earlier code), H100 (earlier code). "));
  EXPECT_THAT(part(), ContainsRegex("[*]Speed[*], modelled: SLOWER 0.8[0-9]*x on T4 .earlier code., "
                                    "H100 .earlier code and model.. Measured"));
  earlier_models_ = {published_[0].commit};
  EXPECT_THAT(part("T4"), Not(ContainsRegex("2x-sample-cpu [(][^)]*model[)]"))) << "what was measured has none";
  for (Result& result : dry_) result.cases[0].preset = "check";
  earlier_models_.insert(dry_[0].commit);
  EXPECT_THAT(part(), Not(HasSubstr("model)"))) << "no speed";
}

TEST_F(DecidePage, ACpusNumberIsNamedWhereTheCardHasNone) {
  dry_.erase(dry_.begin());
  EXPECT_THAT(complaint("H100", "30"), HasSubstr("no result is of a H100"));
  dry_.clear();
  EXPECT_THAT(
      part(),
      HasSubstr("| measured on 2x-sample-cpu:<br>*earlier code:*<br>memory SMALLER 0.250x<br>speed SLOWER 0.80"));
  EXPECT_THAT(part(), Not(HasSubstr("modelled: ")));
  published_.clear();
  EXPECT_THAT(part(), HasSubstr("| not yet measured |\n"));
}

// Who reads "LARGER" must not take what the lesson warns of for what it advises.
TEST_F(DecidePage, AMistakeIsCalledOne) {
  EXPECT_THAT(part(), Not(HasSubstr("the mistake")));
  dry_[0].headline = Headline{.case_name = dry_[0].cases[0].name, .technique = "accumulate"};
  dry_[0].cases[0].variants[1].expected->kind = "mistake";
  EXPECT_THAT(part(), HasSubstr("<br>the mistake *accumulate* against *large batch*"));
}

TEST_F(DecidePage, NoOtherRowStandsForAHeadlineThatWasNotMeasured) {
  dry_[0].headline = Headline{.case_name = "R2 batch=64", .technique = "accumulate"};
  EXPECT_THAT(part(), HasSubstr("| measured on 2x-sample-cpu:<br>*earlier code:*<br>memory SMALLER 0.250x"));
}

TEST_F(DecidePage, WhatOthersPublishedIsSaidToBeTheirs) {
  test::write_text(root_ / "docs/claims.json",
                   R"({"sources": [{"id": "A", "title": "An article"}], "claims": [{"id": "one", "source": "A",
  "claim": "It is so.", "lesson": "30_gradient_accumulation", "metric": "speed", "rule": "FASTER", "device": "any",
  "tests": [{"case": "gpt", "technique": "accumulate"}]}], "published": [{"id": "a",
  "lesson": "30_gradient_accumulation", "what": "more steps", "hardware": "A100", "model": "BERT",
  "number": "20 % more", "source": "a benchmark",
  "url": "https://a.b/c", "date": "2020", "checked": "2026-11-23"}]})");
  EXPECT_THAT(part(), HasSubstr("- *Published elsewhere*, not by us: 20 % more (more steps; A100; BERT; [a "
                                "benchmark](https://a.b/c)).\n"));
  EXPECT_THAT(part(), HasSubstr("<br>others: [20 % more](https://a.b/c), more steps |\n"));
}

TEST_F(DecidePage, AGpusNumberStandsBesideTheModelledOne) {
  published_.push_back(sample_result());
  published_.back().machine.id = "h200";
  for (CaseResult& c : published_.back().cases) c.device = "cuda";
  EXPECT_THAT(part(), ContainsRegex("<br>speed SLOWER 0.8[0-9]*x<br>.measured on h200, earlier code.: memory SMALLER "
                                    "0.250x, speed SLOWER 0.8[0-9]*x"));
}

// One GPU has run a few cases: another one of the lesson is named, and is better than none.
TEST_F(DecidePage, AnotherCaseOfAGpuIsNamed) {
  published_.push_back(sample_result());
  published_.back().machine.id = "h200";
  published_.back().headline = Headline{.case_name = "R2 batch=64", .technique = "accumulate"};
  for (CaseResult& c : published_.back().cases) c.device = "cuda", c.name = "small";
  EXPECT_THAT(part(), ContainsRegex("<br>.measured on h200, earlier code., .accumulate. against .large batch., case "
                                    ".small.: memory SMALLER 0.250x, speed SLOWER 0.8[0-9]*x"));
}

// The price of a step is the row's point: a CPU's is better than none.
TEST_F(DecidePage, WhereACardHasNoTimeAMachinesIsNamed) {
  for (Result& card : dry_) card = sample_dry_result(card.machine.id.substr(4), 80);
  EXPECT_THAT(part(),
              ContainsRegex("memory SMALLER 0.250x<br>speed measured on 2x-sample-cpu, earlier code: SLOWER 0.8"));
  published_[0].headline = Headline{.case_name = published_[0].cases[0].name, .technique = "zeroes every micro-batch"};
  EXPECT_THAT(part(), HasSubstr("<br>speed measured on 2x-sample-cpu, earlier code: SLOWER 0.8"))
      << "another row stands for the lesson there, and this one was measured all the same";
  for (Result& card : dry_) card.cases[0].preset = "quick";
  EXPECT_THAT(part(), HasSubstr("<br>speed measured on 2x-sample-cpu")) << "timed, and no speed came of it";
  published_[0].cases[0].verdicts[0].speed.label = "AMBIGUOUS";
  EXPECT_THAT(part(), HasSubstr("<br>speed not modelled |"));
  for (Result& card : dry_) card.cases[0].preset = "check";
  published_[0].cases[0].verdicts[0].speed.label = "SLOWER", published_[0].cases[0].name = "another case";
  EXPECT_THAT(part(), HasSubstr("<br>speed not timed |")) << "of another case it would say something else";
}

TEST_F(DecidePage, ACpuStandsInForNoLessonOnManyDevices) {
  for (Result& card : dry_) card = sample_dry_result(card.machine.id.substr(4), 80);
  test::write_text(root_ / "lessons/52_ddp/README.md", kScreen);
  for (auto* results : {&published_, &dry_}) {
    for (Result& result : *results) result.lesson = "52_ddp";
  }
  lessons_[0].name = "52_ddp";
  EXPECT_THAT(part("H100", "52"), HasSubstr("<br>speed not timed |")) << "ranks on a CPU are no GPUs";
}

TEST_F(DecidePage, AShorterTrainingSaysHowLongItWas) {
  dry_.clear();
  published_ = {sample_training()};
  std::vector<VariantResult>& variants = published_[0].cases[0].variants;
  EXPECT_THAT(part(), Not(HasSubstr("of the updates")));
  variants[0].notes["trained"] = {100, "% of the updates"}, variants[1].notes["trained"] = {39.6, "% of the updates"};
  EXPECT_THAT(part(), HasSubstr(": NOT WORSE, after 39.6 % of the updates instead of 100; time to"));
}

// A difference without its two values and a sign without its sense say nothing to who decides.
TEST_F(DecidePage, ATrainingSaysBothQualitiesAndWhichWayIsBetter) {
  dry_.clear();
  published_ = {sample_training()};
  EXPECT_THAT(part(), ContainsRegex("<br>validation loss [0-9.]+ instead of [0-9.]+ .lower is better.: NOT WORSE; "
                                    "time to an equal one [A-Z]+ [0-9.]+x"));
  EXPECT_THAT(part(), HasSubstr("NOT WORSE +")) << "with its interval in the folded list";
}

// A number that the lesson's page disowns must not stand without that page's words.
TEST_F(DecidePage, ASpeedThatTheModelCannotTellIsNotPrinted) {
  const std::string text = part("H100", "30=memory");
  EXPECT_THAT(text, HasSubstr("memory SMALLER 0.250x<br>speed see its page |\n"));
  EXPECT_THAT(
      text, HasSubstr("- *Speed*, modelled: see its page on T4 (earlier code), H100 (earlier code). Measured: SLOWER"));
  EXPECT_EQ(complaint("H100", "30=speed"),
            "decide: '30=speed' is neither a lesson's number nor one with ':CASE/TECHNIQUE', '~TECHNIQUE', "
            "'#SURVEY#NOTE', '=memory' or '=mistake'");
}

TEST_F(DecidePage, AnotherRowCanStandForALessonOnCards) {
  EXPECT_EQ(part("H100", "30:R2_batch=4/accumulate"), part("H100", "30")) << "the same row, named";
  EXPECT_EQ(complaint("H100", "30:R2_batch=4/nothing"), "decide: no card has the row of '30:R2_batch=4/nothing'");
}

TEST_F(DecidePage, TheRowSaysWhatIsAMistakeHere) {
  EXPECT_THAT(part("H100", "30=mistake"), HasSubstr("<br>the mistake *accumulate* against *large batch*"));
}

// Against a baseline that nobody trains a ratio says little: what everybody does stands below.
TEST_F(DecidePage, AnotherTechniqueOfTheCaseStandsBelow) {
  for (Result& card : dry_) {
    CaseResult& c = card.cases[0];
    c.variants.push_back(c.variants[1]), c.variants.back().name = "in halves";
    c.verdicts.push_back(c.verdicts[0]), c.verdicts.back().technique = "in halves";
    c.variants.back().peak_bytes["allocated"] = 200'000'000;
    judge(c);
  }
  EXPECT_THAT(part("H100", "30~in_halves"),
              ContainsRegex("speed SLOWER 0.8[0-9]*x<br>.in halves. in the same case: memory SMALLER 0.500x, speed "
                            "SLOWER 0.8"));
  EXPECT_EQ(complaint("H100", "30~in_thirds"), "decide: the case has no technique 'in thirds'");
}

TEST_F(DecidePage, WhatASurveyNotedCanStandForALesson) {
  EXPECT_THAT(part("H100", "30#rates#largest_/_best"), HasSubstr("| not yet measured |")) << "nobody published it";
  references_ = {sample_result()};
  CaseResult& survey = references_[0].cases[0];
  survey.name = "rates", survey.variants[0].notes["largest / best"] = {0.826, "x"};
  EXPECT_THAT(
      part("H100", "30#rates#largest_/_best"),
      HasSubstr("| measured on 2x-sample-cpu, earlier code:<br>*rates*, largest / best: large batch 0.826 x |"));
  EXPECT_THAT(complaint("H100", "30#rates#smallest"), HasSubstr("noted no 'smallest'"));
  EXPECT_THAT(complaint("H100", "30#sizes#smallest"), HasSubstr("has no survey 'sizes'"));
}

// The interval of a modelled ratio is the host's noise: it says nothing of how far the model may be off.
TEST_F(DecidePage, AModelledRatioHasNoInterval) {
  const std::string text = part(), speed = text.substr(text.find("- *Speed*, modelled: "));
  EXPECT_THAT(speed.substr(0, speed.find("Measured")), Not(HasSubstr("[")));
  EXPECT_THAT(speed.substr(speed.find("Measured")), HasSubstr("["));
}

TEST_F(DecidePage, MistakesAreOneLine) {
  EXPECT_EQ(complaint("H100", "99"), "decide: there is no lesson '99'");
  EXPECT_EQ(complaint("B200", "30"), "decide: no result is of a B200 that is not there");
  test::write_text(root_ / "lessons/30_gradient_accumulation/README.md", replaced(kScreen, " you pay |", ""));
  EXPECT_THAT(complaint("H100", "30"), HasSubstr("30_gradient_accumulation/README.md: its table"));
}

}  // namespace
}  // namespace tenfold
