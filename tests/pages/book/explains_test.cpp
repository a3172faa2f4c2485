// What a paragraph explains: a direction that the numbers deny must not stand.
#include "common/pages/book/explains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/sample.h"

namespace tenfold {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kPage = "lessons/30_gradient_accumulation/README.md";

/// What is wrong with a comment that ends so, of a technique predicted at 0.82x.
std::vector<std::string> wrong_with(const std::string& said, std::optional<double> measured, bool predicted = true) {
  Result result = sample_result();
  CaseResult& c = result.cases[0];
  c.verdicts[0].speed.ratio = measured;
  if (!predicted) c.variants[1].predicted.speed_ratio.reset();
  std::vector<std::string> wrong;
  check_explained("text\n<!-- explains " + said + " -->\nIt waits.\n", kPage, {result}, wrong);
  return wrong;
}

TEST(Explains, TheDirectionIsThatOfTheMeasuredSpeedAgainstThePredictedOne) {
  EXPECT_THAT(wrong_with("R2 batch=4 | accumulate | slower", 0.5), IsEmpty());
  EXPECT_THAT(wrong_with("R2 batch=4 | accumulate | faster", 0.9), IsEmpty())
      << "slower than the baseline all the same";
  EXPECT_THAT(
      wrong_with("R2 batch=4 | accumulate | slower", 0.9),
      ElementsAre(std::string(kPage) + ": explains R2 batch=4 | accumulate | slower: was predicted at 0.820x and "
                                       "measured at 0.900x, which is not slower; the paragraph wants to be "
                                       "rewritten"));
  EXPECT_THAT(wrong_with("R2 batch=4 | accumulate | faster", 0.5), ElementsAre(HasSubstr("which is not faster")));
}

TEST(Explains, WithoutADirectionNothingIsAsked) {
  EXPECT_THAT(wrong_with("R2 batch=4 | accumulate", 0.9), IsEmpty());
  EXPECT_THAT(wrong_with("another case | accumulate", 0.9), IsEmpty()) << "the contract asks for the row";
}

TEST(Explains, ADirectionNeedsARowAWordAndAPrediction) {
  EXPECT_THAT(wrong_with("another case | accumulate | slower", 0.5), ElementsAre(HasSubstr("is no published row")));
  EXPECT_THAT(wrong_with("R2 batch=4 | accumulate | worse", 0.5),
              ElementsAre(HasSubstr("'worse' is neither slower nor faster")));
  for (const auto& wrong : {wrong_with("R2 batch=4 | accumulate | slower", std::nullopt),
                            wrong_with("R2 batch=4 | accumulate | slower", 0.5, /*predicted=*/false)})
    EXPECT_THAT(wrong, ElementsAre(HasSubstr("has no predicted speed beside a measured one")));
}

TEST(Explains, EachCommentIsARowAndItsDirection) {
  const std::vector<Explained> all =
      explained_in("<!-- explains a, b | c -->\n  <!-- explains d | e | faster -->\nx\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].row, "a, b | c");
  EXPECT_EQ(all[0].direction, "");
  EXPECT_EQ(all[1].row, "d | e");
  EXPECT_EQ(all[1].direction, "faster");
}

}  // namespace
}  // namespace tenfold
