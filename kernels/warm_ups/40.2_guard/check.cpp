#include <gtest/gtest.h>

#include EXERCISE

#include "common/microscope/device.h"

#include "tests/support/expect_clean.h"

namespace {

using namespace tenfold;

constexpr int64_t kCounts[] = {1, 127, 128, 129, 1000};

/// Adds n values under the microscope, with the answer's kernel.
simt::Report run(int64_t n, unsigned threads = 128) {
  simt::Device device;
  const auto a = device.buffer<float>("a", n), b = device.buffer<float>("b", n), out = device.buffer<float>("out", n);
  for (int64_t i = 0; i < n; ++i) a[i] = static_cast<float>(i), b[i] = static_cast<float>(1000 * i);
  const auto blocks = static_cast<unsigned>((n + threads - 1) / threads);
  kernels::launch(&device, dim3(blocks), dim3(threads), 0, add, out.data(), a.data(), b.data(), n);
  for (int64_t i = 0; i < n; ++i) {
    EXPECT_EQ(out[i], a[i] + b[i]) << "hint: value " << i << " of " << n << " with blocks of " << threads
                                   << " is wrong (nan: never written); which block has it?";
    if (out[i] != a[i] + b[i]) break;
  }
  return device.report();
}

TEST(Exercise40_2, EveryValueIsAdded) {
  for (const int64_t n : kCounts) run(n);
  run(1000, 96);
}

TEST(Exercise40_2, NothingRacesOrFaults) {
  for (const int64_t n : kCounts) {
    test::expect_clean(run(n), "may two blocks have the same values?");
    if (HasFailure()) return;
  }
}

TEST(Exercise40_2, EachValueIsLoadedOnce) {
  int64_t loads = 0;
  for (const simt::Access& access : run(1000).accesses) loads += access.kind == simt::Kind::load ? access.lanes : 0;
  EXPECT_EQ(loads, 2000) << "hint: n values of a and n of b; the threads behind the end load nothing";
}

}  // namespace
