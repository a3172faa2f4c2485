#include "common/base/progress_line.h"

#include <gtest/gtest.h>

namespace tenfold {
namespace {

TEST(ProgressLine, IsReadAsItWasPrinted) {
  testing::internal::CaptureStderr();
  print_progress(0.4321, "case gpt: time pass");
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_EQ(line, "@progress 0.432 case gpt: time pass\n");
  const auto progress = progress_in(line.substr(0, line.size() - 1));
  ASSERT_TRUE(progress);
  EXPECT_DOUBLE_EQ(progress->fraction, 0.432);
  EXPECT_EQ(progress->text, "case gpt: time pass");
}

TEST(ProgressLine, MayHaveNoTextAndAnyFraction) {
  const auto late = progress_in("@progress 1.5");
  ASSERT_TRUE(late);
  EXPECT_EQ(late->fraction, 1);
  EXPECT_EQ(late->text, "");
  EXPECT_EQ(progress_in("@progress -1 begins").value().fraction, 0);
}

TEST(ProgressLine, IsNoOtherLine) {
  for (const char* line : {"", "@progress", "@progress soon", "a remark", " @progress 0.5 text"})
    EXPECT_FALSE(progress_in(line)) << line;
}

}  // namespace
}  // namespace tenfold
