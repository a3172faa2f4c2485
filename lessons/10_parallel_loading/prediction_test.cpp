// What lessons 10 and 13 predict, from counts of made-up steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "prediction.h"

namespace {

using tenfold::Counted;
using tenfold::overlapped;

/// A step that loads and trains for so many seconds: on a CPU one after the other; on a GPU the host loads the next
/// batch meanwhile, and the region's device time is what the GPU waits for it.
Counted step_of(double loading, double training, torch::Device device) {
  Counted counted{.device = device};
  const bool gpu = device.is_cuda();
  counted.step_seconds = counted.whole.seconds = gpu ? std::max(loading, training) : loading + training;
  tenfold::Region& data = counted.regions["data"];
  data.seconds = gpu ? std::max(0.0, loading - training) : loading;
  data.host_seconds = loading;
  counted.peak_bytes = 1000;
  counted.settings = {
      {"images", std::string("png")}, {"side", int64_t{64}}, {"batch", int64_t{8}}, {"prefetch", int64_t{2}}};
  return counted;
}

double speed(int workers, const Counted& counted) { return *overlapped(workers)(counted).speed_ratio; }

TEST(Prediction, OnACpuLoadingLeavesTheStepAsFarAsCoresAllow) {
  const Counted even = step_of(1, 1, torch::kCPU);
  EXPECT_DOUBLE_EQ(speed(1, even), std::min(2.0, static_cast<double>(tenfold::usable_cores())));
  EXPECT_LE(speed(64, step_of(9, 1, torch::kCPU)), tenfold::usable_cores());
  EXPECT_EQ(*overlapped(1)(even).peak_bytes, 1000 + 2 * 8 * (3 * 64 * 64 * 4 + 8)) << "two batches";
}

TEST(Prediction, OnAGpuTheLoopOverlapsAlready) {
  const torch::Device gpu(torch::kCUDA, 0);
  const Counted loads = step_of(4, 1, gpu);
  EXPECT_DOUBLE_EQ(speed(1, loads), 1);
  EXPECT_DOUBLE_EQ(speed(2, loads), std::min(2, tenfold::usable_cores()));
  EXPECT_LE(speed(64, loads), 4) << "training is left";
  EXPECT_DOUBLE_EQ(speed(4, step_of(1, 4, gpu)), 1) << "nothing waits for loading";
  EXPECT_EQ(*overlapped(2)(loads).peak_bytes, 1000) << "the buffers are the host's memory";
}

}  // namespace
