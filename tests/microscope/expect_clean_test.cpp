// The exercises' check of a report: whatever the microscope saw fails it, with the line.
#include "tests/support/expect_clean.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

namespace tenfold {
namespace {

using simt::FaultKind;

TEST(ExpectClean, FailsOnEveryKindOfFault) {
  for (const FaultKind kind : {FaultKind::out_of_bounds, FaultKind::misaligned, FaultKind::divergent_barrier,
                               FaultKind::warp_mismatch, FaultKind::deadlock}) {
    simt::Report report;
    report.faults.push_back({kind, {"exercise.h", 7}, std::string("is ") + simt::name_of(kind), 1});
    EXPECT_NONFATAL_FAILURE(test::expect_clean(report, "who waits?"),
                            std::string("\nhint: line 7: is ") + simt::name_of(kind));
  }
}

TEST(ExpectClean, FailsOnARaceWithBothLines) {
  simt::Report report;
  simt::Race race;
  race.first.line = 7, race.second.line = 9;
  report.races.push_back(race);
  EXPECT_NONFATAL_FAILURE(test::expect_clean(report, "who waits?"),
                          "lines 7 and 9 touch the same word\nhint: who waits?");
}

TEST(ExpectClean, PassesACleanReport) {
  simt::Report report;
  report.launches = 3;
  test::expect_clean(report, "who waits?");
  EXPECT_FALSE(HasFailure());
}

}  // namespace
}  // namespace tenfold
