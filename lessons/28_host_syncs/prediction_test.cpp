// What a wait should cost on a GPU: with the host far ahead, with the host as the slower one, and between.
#include "prediction.h"

#include <gtest/gtest.h>

namespace tenfold {
namespace {

constexpr double kLaunch = 5e-6;

/// A step of a GPU, counted: the host needs `batch` to make a batch and `queue` for all the rest, the device `device`.
Counted counted(double batch, double queue, double device) {
  Counted step{.device = torch::kCUDA};
  step.ceilings = {{"cuda_launch_seconds", kLaunch}};
  step.step_seconds = std::max(batch + queue, device);
  // Between events on the stream lies what the device does, or waits for.
  const double idle = step.step_seconds - device, waits_for_batch = std::min(batch, idle);
  const auto region = [](double seconds, double host) {
    Region found;
    found.seconds = seconds, found.host_seconds = host;
    return found;
  };
  step.regions = {{"data", region(waits_for_batch, batch)},
                  {"loss", region(step.step_seconds * 0.8, batch + queue * 0.8)},
                  {"optimizer", region(step.step_seconds * 0.2, queue * 0.2)}};
  return step;
}

double ratio(double batch, double queue, double device) {
  return waits_every_step(counted(batch, queue, device)).speed_ratio.value();
}

TEST(AWait, CostsTheBatchWhereTheHostIsAhead) {
  EXPECT_NEAR(ratio(3e-3, 5e-3, 20e-3), 20e-3 / (23e-3 + 2 * kLaunch), 1e-9);
}

TEST(AWait, CostsItsLaunchesWhereTheHostIsTheSlowerOne) {
  EXPECT_NEAR(ratio(1e-4, 9e-4, 2e-4), 1e-3 / (1e-3 + 2 * kLaunch), 1e-9);
}

// A step that takes a little longer is not another regime: no jump of 10 % where host and device are about equal.
TEST(AWait, CostsAboutAsMuchWhereTheTwoAreNearlyEqual) {
  double before = ratio(1e-4, 9e-4, 0.8e-3);
  for (double device = 0.8e-3; device < 1.3e-3; device += 1e-6) {
    const double now = ratio(1e-4, 9e-4, device);
    EXPECT_NEAR(now, before, 2e-3) << "device " << device;
    before = now;
  }
}

TEST(AWait, CostsNothingOnACpu) {
  Counted step{.device = torch::kCPU};
  EXPECT_EQ(waits_every_step(step).speed_ratio, 1);
}

}  // namespace
}  // namespace tenfold
