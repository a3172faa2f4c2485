#include <gtest/gtest.h>

#include EXERCISE

#include "common/microscope/device.h"

#include "tests/support/expect_clean.h"

namespace {

using namespace tenfold;

constexpr float kFactor = 3;

/// Scales `count` values under the microscope, with the answer's kernel.
simt::Report run(int count) {
  simt::Device device;
  const auto in = device.buffer<float>("in", count), out = device.buffer<float>("out", count);
  for (int i = 0; i < count; ++i) in[i] = static_cast<float>(i - 5);
  kernels::launch(&device, dim3(1), dim3(static_cast<unsigned>(count)), 0, scale, out.data(), in.data(), kFactor);
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(out[i], kFactor * in[i]) << "hint: value " << i << " of " << count
                                       << " is wrong (nan: never written); which thread should write it?";
    if (out[i] != kFactor * in[i]) break;
  }
  return device.report();
}

TEST(Exercise40_1, EveryValueIsScaled) {
  for (const int count : {1, 64, 100}) run(count);
}

TEST(Exercise40_1, EachThreadDoesOneValue) {
  int64_t loads = 0, stores = 0;
  for (const simt::Access& access : run(64).accesses)
    (access.kind == simt::Kind::load ? loads : stores) += access.lanes;
  EXPECT_EQ(loads, 64) << "hint: 64 threads read one value each; a loop in each thread would read 4096";
  EXPECT_EQ(stores, 64) << "hint: 64 threads write one value each";
}

TEST(Exercise40_1, NothingRacesOrFaults) {
  for (const int count : {1, 64, 100}) {
    test::expect_clean(run(count), "each thread needs an index of its own; what differs between threads?");
    if (HasFailure()) return;
  }
}

}  // namespace
