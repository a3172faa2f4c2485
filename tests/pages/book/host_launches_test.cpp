// What a host needs for a launch: of steps that tell it, and of no others.
#include "common/pages/book/host_launches.h"

#include <gtest/gtest.h>

#include "tests/support/sample.h"

namespace tenfold {
namespace {

Result step_of(const std::string& lesson, double host, double device) {
  Result result = sample_modelled_result();
  result.lesson = lesson;
  VariantResult& baseline = result.cases[0].variants[0];
  baseline.split = Split{.host = host, .device = device};
  baseline.counted["launches"] = 100;
  return result;
}

TEST(HostLaunches, TheMedianOfStepsThatAreTheHostsFromAThirdOn) {
  EXPECT_EQ(host_launches_markdown({}), "Not yet timed.\n");
  const std::vector<Result> dry = {step_of("25_a", 0.0002, 0.0003), step_of("26_b", 0.0003, 0.0003),
                                   step_of("45_c", 0.0009, 0.0003), step_of("30_d", 0.1, 0.9)};
  EXPECT_NE(host_launches_markdown(dry).find(": 3.00 us on Sample CPU (3 steps).\n"), std::string::npos)
      << host_launches_markdown(dry);
}

// A step that decodes a JPEG on the host says nothing of launches.
TEST(HostLaunches, LessonsOnDataAreLeftOut) {
  EXPECT_EQ(host_launches_markdown({step_of("14_packed_files", 0.1, 0.001)}), "Not yet timed.\n");
  EXPECT_NE(host_launches_markdown({step_of("25_a", 0.0002, 0.0003)}).find("2.00 us on Sample CPU (1 step)"),
            std::string::npos);
}

}  // namespace
}  // namespace tenfold
