#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "common/microscope/device.h"

#include "tests/support/expect_clean.h"

namespace {

/// What the answer hands to fast_sine: the largest angle, and how often it calls.
float largest_angle = 0;
int calls = 0;

/// __sinf as nvcc compiles it: a product that is rounded towards zero, and a sine instruction, here exact.
inline float fast_sine(float x) {
  largest_angle = std::max(largest_angle, std::abs(x));
  ++calls;
  const double exact = static_cast<double>(x) * static_cast<double>(0.15915493667F);
  auto turns = static_cast<float>(exact);
  if (std::abs(static_cast<double>(turns)) > std::abs(exact)) turns = std::nextafter(turns, 0.0F);
  return static_cast<float>(std::sin(2 * M_PI * static_cast<double>(turns)));
}

}  // namespace

#include EXERCISE

namespace {

constexpr int kAngles = 1'000'001;

float angle(int i, float largest) { return largest * (2 * static_cast<float>(i) / (kAngles - 1) - 1); }

TEST(Exercise47, SmallAnglesStayRight) {
  for (int i = 0; i < kAngles; ++i) {
    const float x = angle(i, 3.14F);
    ASSERT_LT(std::abs(sine(x) - std::sin(static_cast<double>(x))), 0x1p-20)
        << "x = " << x << "\nhint: zero turns leave x as it is";
  }
}

TEST(Exercise47, LargeAnglesAreRightToo) {
  for (int i = 0; i < kAngles; ++i) {
    const float x = angle(i, 10'000);
    ASSERT_LT(std::abs(sine(x) - std::sin(static_cast<double>(x))), 0x1p-20)
        << "x = " << x
        << "\nhint: subtract the whole turns first; does the difference lose digits? One float holds 2 pi to 7 digits "
           "only";
  }
}

TEST(Exercise47, OneFastSineOfASmallAngle) {
  largest_angle = 0, calls = 0;
  for (int i = 0; i < kAngles; ++i) sine(angle(i, 10'000));
  EXPECT_EQ(calls, kAngles) << "hint: one call of fast_sine for each angle";
  EXPECT_LT(largest_angle, 3.15F) << "hint: rintf, not floorf, so that the rest is between -pi and pi";
}

TEST(Exercise47, TheKernelRacesOrFaultsNowhere) {
  using namespace tenfold;
  for (const int64_t n : {1, 31, 256, 1000}) {
    simt::Device device;
    const auto x = device.buffer<float>("x", n), out = device.buffer<float>("out", n);
    for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(10 * i);
    kernels::launch(&device, dim3(static_cast<unsigned>((n + 127) / 128)), dim3(128), 0, sines, out.data(), x.data(),
                    n);
    for (int64_t i = 0; i < n; ++i) {
      const bool right = std::abs(out[i] - std::sin(static_cast<double>(x[i]))) < 0x1p-20;
      ASSERT_TRUE(right) << "hint: angle " << i << " of " << n << " is " << x[i] << ", and its sine came out as "
                         << out[i] << " (nan: never written)";
    }
    test::expect_clean(device.report(), "each thread has an angle of its own");
    if (HasFailure()) return;
  }
}

}  // namespace
