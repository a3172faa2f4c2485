// What GPUs that are not there have counted, on pages: apart from what was measured.
#include "common/pages/dry_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/pages/generated.h"
#include "common/pages/table.h"

#include "tests/support/sample.h"
#include "tests/support/support.h"

namespace tenfold {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

TEST(DryTables, ALessonsPageShowsEachCardsPeakAndWhatAStepAsks) {
  const std::vector<Result> dry = {sample_dry_result("H100"), sample_dry_result("T4", 16)};
  const std::string page = dry_markdown(dry, dry[0].lesson, dry[0].code_hash, "../../docs");
  EXPECT_LT(page.find("NVIDIA T4"), page.find("NVIDIA H100")) << "the smaller card first";
  EXPECT_THAT(page, HasSubstr("95.4 MiB, SMALLER 0.250x"));
  EXPECT_THAT(page, HasSubstr("-3.8 %"));
  EXPECT_THAT(page, HasSubstr("| 730 | 2 | 4.00 KiB | agrees 2.1e-07 |"));
  EXPECT_THAT(page, HasSubstr("trap caught"));
  EXPECT_THAT(page, Not(HasSubstr("items/s")));
  EXPECT_THAT(page, Not(HasSubstr("stale")));
  EXPECT_THAT(dry_markdown(dry, dry[0].lesson, "other code", "docs"), HasSubstr("stale"));
  EXPECT_EQ(dry_markdown(dry, "31_other", "", "docs"), "");
}

TEST(DryTables, PredictionsOfAllLessonsByCard) {
  const std::string table = dry_peaks_markdown({sample_dry_result("H100"), sample_dry_result("T4", 16)});
  EXPECT_THAT(table,
              HasSubstr("| NVIDIA H100 | 1 | 2 | 3.1 % | -3.8 % | 30 accumulate (R2 batch=4) | 1 of 1 | 1 of 1 |"));
  EXPECT_THAT(table, HasSubstr("- 30 accumulate (R2 batch=4): -3.8 % on NVIDIA H100, -3.8 % on NVIDIA T4"));
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
