#include <gtest/gtest.h>

#include EXERCISE

#include "common/microscope/device.h"

#include "tests/support/expect_clean.h"

namespace {

using namespace tenfold;

constexpr int64_t kCounts[] = {1, 2, 127, 128, 129, 1000, 1024};

/// Runs the answer's kernel under the microscope on n values.
simt::Report run(int64_t n) {
  simt::Device device;
  const auto in = device.buffer<float>("in", n), out = device.buffer<float>("out", n);
  for (int64_t i = 0; i < n; ++i) in[i] = static_cast<float>(i * i % 1009);
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  kernels::launch(&device, dim3(blocks), dim3(kThreads), 0, sum_of_three, out.data(), in.data(), n);
  for (int64_t i = 0; i < n; ++i) {
    const float expected = (i > 0 ? in[i - 1] : 0) + in[i] + (i + 1 < n ? in[i + 1] : 0);
    EXPECT_EQ(out[i], expected) << "hint: value " << i << " of " << n
                                << " is wrong (nan: never written); is it at the edge of its block, or of the array?";
    if (out[i] != expected) break;
  }
  return device.report();
}

TEST(Exercise40_4, EveryValueIsRight) {
  for (const int64_t n : kCounts) run(n);
}

TEST(Exercise40_4, NothingRacesOrFaults) {
  for (const int64_t n : kCounts) {
    test::expect_clean(run(n), "a thread reads what another one stored; what must every thread wait for in between?");
    if (HasFailure()) return;
  }
}

TEST(Exercise40_4, EachBlockLoadsItsValuesOnce) {
  constexpr int64_t kCount = 1024, kBlocks = kCount / kThreads;
  int64_t loads = 0;
  for (const simt::Access& access : run(kCount).accesses) {
    if (access.space == simt::Space::global && access.kind == simt::Kind::load) loads += access.lanes;
  }
  EXPECT_LE(loads, kCount + 2 * kBlocks)
      << "hint: values loaded from global memory; a block needs its own 128 and one on each side";
}

}  // namespace
