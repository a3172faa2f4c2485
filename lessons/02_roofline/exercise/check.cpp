#include <gtest/gtest.h>

#include EXERCISE

#include <cmath>

#include "common/microscope/device.h"

#include "tests/support/expect_clean.h"

namespace {

using namespace tenfold;

constexpr float kFactor = 0.75F, kSummand = 0.5F;
constexpr int64_t kCounts[] = {1, 31, 128, 129, 1000, 1024};

/// Updates n floats under the microscope, with the answer's kernels.
simt::Report update(int64_t n, int64_t updates) {
  simt::Device device;
  const auto w = device.buffer<float>("w", n);
  for (int64_t i = 0; i < n; ++i) w[i] = std::sin(static_cast<float>(i));
  update_all(&device, w.data(), n, updates, kFactor, kSummand);
  for (int64_t i = 0; i < n; ++i) {
    float expected = std::sin(static_cast<float>(i));
    for (int64_t done = 0; done < updates; ++done) expected = std::fma(expected, kFactor, kSummand);
    EXPECT_EQ(w[i], expected) << "hint: float " << i << " of " << n << " is wrong after " << updates
                              << " updates; is each of them applied once, and to every float?";
    if (w[i] != expected) break;
  }
  return device.report();
}

TEST(Exercise02, EveryFloatGetsEveryUpdate) {
  for (const int64_t n : kCounts) update(n, 5);
  update(100, 1);
}

TEST(Exercise02, MoreArithmeticMovesNoMoreBytes) {
  constexpr int64_t kFloats = 1024;
  for (const int64_t updates : {1, 4, 32}) {
    const int64_t moved = update(kFloats, updates).bytes_asked();
    EXPECT_LE(moved, 8 * kFloats)
        << updates << " updates asked for " << moved / kFloats
        << " bytes of each float\nhint: load a float once, update it in a register, store it once: 8 bytes";
  }
}

TEST(Exercise02, NothingRacesOrFaults) {
  for (const int64_t n : kCounts) {
    test::expect_clean(update(n, 3), "which threads of the last block have no float?");
    if (HasFailure()) return;
  }
}

}  // namespace
