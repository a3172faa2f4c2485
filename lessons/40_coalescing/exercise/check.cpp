#include <gtest/gtest.h>

#include EXERCISE

#include "common/microscope/device.h"

#include "tests/support/expect_clean.h"

namespace {

using namespace tenfold;

constexpr int64_t kCounts[] = {1, 31, 128, 129, 1000, 1024};

/// Splits n points under the microscope, with the answer's kernel.
simt::Report split(int64_t n) {
  simt::Device device;
  const auto points = device.buffer<float>("points", 3 * n);
  const auto x = device.buffer<float>("x", n), y = device.buffer<float>("y", n), z = device.buffer<float>("z", n);
  for (int64_t i = 0; i < 3 * n; ++i) points[i] = static_cast<float>(i);
  kernels::launch(&device, dim3(static_cast<unsigned>((n + kThreads - 1) / kThreads)), dim3(kThreads), 0, split_points,
                  x.data(), y.data(), z.data(), points.data(), n);
  for (int64_t i = 0; i < n; ++i) {
    const bool right = x[i] == points[3 * i] && y[i] == points[3 * i + 1] && z[i] == points[3 * i + 2];
    EXPECT_TRUE(right) << "hint: point " << i << " of " << n
                       << " is wrong or was never written; is the last block partly empty?";
    if (!right) break;
  }
  return device.report();
}

TEST(Exercise40, EveryPointArrives) {
  for (const int64_t n : kCounts) split(n);
}

TEST(Exercise40, NoRequestWastesASector) {
  for (const simt::Access& access : split(1024).accesses) {
    if (access.space == simt::Space::global) {
      EXPECT_LE(access.sectors_per_request(), 4)
          << "line " << access.where.line << ", global " << simt::name_of(access.kind)
          << "\nhint: neighbouring lanes should touch neighbouring floats";
    } else {
      EXPECT_EQ(access.wavefronts, access.ideal_wavefronts)
          << "line " << access.where.line << "\nhint: lanes want the same bank";
    }
  }
}

TEST(Exercise40, NothingRacesOrFaults) {
  for (const int64_t n : kCounts) {
    test::expect_clean(split(n), "what must every thread wait for before it reads the others' floats?");
    if (HasFailure()) return;
  }
}

}  // namespace
