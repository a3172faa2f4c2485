// What a dry GPU said beside what a card measured: only of one and the same case.
#include "common/pages/book/dry_held.h"

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

class Held : public testing::Test {
 protected:
  Held() {
    published_[0].machine.id = "h200";
    published_[0].cases[0].device = "cuda", published_[0].cases[0].size = "gpu80";
  }
  std::string part(const std::vector<std::string>& words) {
    const Page page{page_, text_, root_, lessons_, published_, dry_, references_, figures_, earlier_models_};
    return held_part(page, words);
  }
  std::string complaint(const std::vector<std::string>& words) {
    return test::message_of<std::invalid_argument>([&] { part(words); });
  }
  test::Scratch scratch_;
  fs::path root_ = scratch_.path(), page_ = root_ / "docs" / "dry_gpu.md";
  std::string text_;
  std::vector<LessonEntry> lessons_;
  std::vector<Result> published_ = {sample_result()}, dry_ = {sample_modelled_result("H100")}, references_;
  std::vector<PageFigure> figures_;
  std::set<std::string> earlier_models_;
};

TEST_F(Held, AMeasuredRatioStandsBeforeTheModelledOne) {
  dry_[0].cases[0].verdicts[0].speed.ratio = 0.9;
  dry_[0].cases[0].variants[0].split->host = 0.05;
  const std::string text = part({"h200", "H100"});
  EXPECT_THAT(text, ContainsRegex("[|] .30..[.][.]/lessons/30_gradient_accumulation/README.md. R2 batch=4 .earlier "
                                  "code. [|] accumulate [|] 0.80[0-9]x; 0.900x .host. [|] 0.250x; 0.250x [|] 100 ms, "
                                  "host 2.0 %; 148 ms, host 34 % [|] "));
  EXPECT_THAT(text, Not(HasSubstr("zeroes"))) << "a trap has no step";
}

TEST_F(Held, AnEarlierModelIsNamed) {
  EXPECT_THAT(part({"h200", "H100"}), Not(HasSubstr("model)")));
  earlier_models_ = {dry_[0].commit};
  EXPECT_THAT(part({"h200", "H100"}), HasSubstr("R2 batch=4 (earlier code) (earlier model) | accumulate"));
}

TEST_F(Held, AnotherCaseIsNotHeldAgainstIt) {
  const std::string none = "Nothing to hold it against yet.\n";
  published_[0].cases[0].settings["batch"] = int64_t{8};
  EXPECT_EQ(part({"h200", "H100"}), none);
  published_[0].cases[0].settings["batch"] = int64_t{4}, published_[0].cases[0].settings["earlier"] = true;
  EXPECT_NE(part({"h200", "H100"}), none) << "a setting that only one of both has";
  published_[0].cases[0].size = "cpu";
  EXPECT_EQ(part({"h200", "H100"}), none);
  published_[0].cases[0].size = "gpu80", published_[0].cases[0].device = "cpu";
  EXPECT_EQ(part({"h200", "H100"}), none) << "no GPU";
}

TEST_F(Held, MistakesAreOneLine) {
  EXPECT_EQ(complaint({"h200"}), "held: a machine of results, and a card that is not there");
  EXPECT_EQ(complaint({"h300", "H100"}), "held: no published result is of 'h300'");
  EXPECT_EQ(complaint({"h200", "B200"}), "held: no result is of a B200 that is not there");
}

}  // namespace
}  // namespace tenfold
