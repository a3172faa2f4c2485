#include <gtest/gtest.h>

#include EXERCISE

#include "common/microscope/device.h"

#include <cmath>
#include <random>

#include "tests/support/expect_clean.h"

namespace {

using namespace tenfold;

constexpr int64_t kCounts[] = {1, 31, 128, 129, 1000};

/// Runs the answer's kernel under the microscope on n random normal values.
simt::Report run(int64_t n) {
  simt::Device device;
  const auto a = device.buffer<float>("a", n), b = device.buffer<float>("b", n), out = device.buffer<float>("out", 1);
  std::mt19937 bits(40);
  std::normal_distribution<float> normal;
  for (float& value : a) value = normal(bits);
  for (float& value : b) value = normal(bits);
  out[0] = 0;
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  kernels::launch(&device, dim3(blocks), dim3(kThreads), 0, dot, out.data(), a.data(), b.data(), n);
  double sum = 0, size = 0;
  for (int64_t i = 0; i < n; ++i) sum += double{a[i]} * b[i], size += std::abs(double{a[i]} * b[i]);
  const bool right = std::abs(out[0] - sum) <= 1e-5 * size;
  EXPECT_TRUE(right) << "hint: of " << n << " values the sum is " << sum << ", not " << out[0]
                     << " (nan: something was added that nobody wrote)";
  return device.report();
}

TEST(Exercise40_5, TheSumIsRight) {
  for (const int64_t n : kCounts) run(n);
}

TEST(Exercise40_5, NothingRacesOrFaults) {
  for (const int64_t n : kCounts) {
    test::expect_clean(run(n), "a thread reads what another one wrote; where must the whole block wait?");
    if (HasFailure()) return;
  }
}

TEST(Exercise40_5, EachBlockDoesOneAtomic) {
  int64_t atomics = 0;
  for (const simt::Access& access : run(1000).accesses)
    atomics += access.space == simt::Space::global && access.kind == simt::Kind::atomic ? access.lanes : 0;
  const int64_t blocks = (1000 + kThreads - 1) / kThreads;
  EXPECT_EQ(atomics, blocks) << "hint: atomics on *out; only one thread of each of the " << blocks
                             << " blocks should do one";
}

TEST(Exercise40_5, NoBankConflict) {
  for (const simt::Access& access : run(1000).accesses) {
    if (access.space != simt::Space::shared) continue;
    EXPECT_EQ(access.wavefronts, access.ideal_wavefronts)
        << "line " << access.where.line << "\nhint: up to " << access.worst_ways
        << " lanes want different words of the same bank; let neighbouring threads add neighbouring words";
  }
}

}  // namespace
