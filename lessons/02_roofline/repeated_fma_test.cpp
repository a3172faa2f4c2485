#include "repeated_fma.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "prediction.h"

namespace tenfold {
namespace {

constexpr Updates kThree{3, 0.875F, 0.3F};

/// With NaN where nothing was written.
std::vector<float> updated(const auto& update, const std::vector<float>& in) {
  std::vector<float> out(in.size() + 1, std::numeric_limits<float>::quiet_NaN());
  update(out.data(), in.data(), static_cast<int64_t>(in.size()), kThree);
  EXPECT_TRUE(std::isnan(out.back())) << "wrote beyond the end";
  out.pop_back();
  return out;
}

/// Values whose product with the factor has to be rounded.
std::vector<float> uneven(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(std::sin(static_cast<float>(i) + 0.5F));
  return values;
}

bool fuses() { return ways_to_update().lanes > 4 || std::string(at::get_cpu_capability()) != "DEFAULT"; }

TEST(RepeatedFma, EveryWayIsTheFusedFormulaBitForBit) {
  if (!fuses()) GTEST_SKIP() << "a CPU without FMA rounds twice";
  const WaysToUpdate ways = ways_to_update();
  for (const int64_t count : {0, 1, 7, 8, 31, 127, 128, 129, 1000, 1024}) {
    const std::vector<float> in = uneven(count);
    for (const UpdateWeights way : {ways.scalar, ways.simd, ways.one_chain}) {
      const std::vector<float> out = updated(way, in);
      for (size_t i = 0; i < in.size(); ++i) {
        float expected = in[i];
        for (int64_t k = 0; k < kThree.count; ++k) expected = std::fma(expected, kThree.factor, kThree.summand);
        ASSERT_EQ(out[i], expected) << "weight " << i << " of " << count;
      }
    }
  }
}

TEST(RepeatedFma, ScalarAndPortableCodeAreEqualToVectorsOfFour) {
  for (const int64_t count : {5, 32, 100}) {
    EXPECT_EQ(updated(scalar_portable, uneven(count)), updated(simd_portable, uneven(count)));
    EXPECT_EQ(updated(scalar_portable, uneven(count)), updated(one_chain_portable, uneven(count)));
  }
}

TEST(RepeatedFma, ThreadsUpdateEveryWeightOnce) {
  for (const int64_t threads : {1, 2, 3, 5}) {
    for (const int64_t count : {1, 1023, 1024, 1025, 2048, 5000}) {
      const auto on_threads = [&](float* out, const float* in, int64_t weights, Updates updates) {
        update_on_threads(threads, ways_to_update().simd, out, in, weights, updates);
      };
      EXPECT_EQ(updated(on_threads, uneven(count)), updated(ways_to_update().simd, uneven(count)))
          << threads << " threads, " << count << " weights";
    }
  }
}

TEST(RepeatedFma, WhatNobodyReadsIsNotComputed) {
  const std::vector<float> in = uneven(100);
  EXPECT_EQ(updated(forgotten, in), in);
}

/// A machine of round numbers: 64 GFLOP/s and 8 GB/s on one core, twice as much on two.
Counted counted(int64_t weights, int64_t updates, double step_seconds) {
  Counted baseline;
  baseline.workload = weights_workload;
  baseline.step_seconds = step_seconds;
  baseline.ceilings = {{"cpu_flops_per_s", 64e9},
                       {"cpu_copy_bytes_per_s", 8e9},
                       {"cpu_all_cores_flops_per_s", 128e9},
                       {"cpu_all_cores_copy_bytes_per_s", 16e9}};
  baseline.settings = {{"weights", weights}, {"updates", updates}, {"passes", int64_t{2}}, {"cores", int64_t{0}}};
  return baseline;
}

TEST(RooflinePrediction, IsTheLowerOfTwoRoofs) {
  const int64_t weights = int64_t{1} << 30;
  const auto count = static_cast<double>(weights);
  // Two passes, 2 FLOP an update, 8 bytes a weight: at 1 update memory decides, at 1000 arithmetic.
  const double by_memory = 2 * 8 * count / 8e9, by_arithmetic = 2 * 2 * 1000 * count / 64e9;
  EXPECT_NEAR(*by_simd(counted(weights, 1, 10)).speed_ratio, 10 / by_memory, 1e-9);
  EXPECT_NEAR(*by_simd(counted(weights, 1000, 100)).speed_ratio, 100 / by_arithmetic, 1e-9);
  EXPECT_NEAR(*by_simd_and_threads(counted(weights, 1000, 100)).speed_ratio, 200 / by_arithmetic, 1e-9);
  const auto lanes = static_cast<double>(ways_to_update().lanes);
  EXPECT_NEAR(*by_threads(counted(weights, 1000, 100)).speed_ratio, 200 / by_arithmetic / lanes, 1e-9);
  EXPECT_NEAR(*by_one_chain(counted(weights, 1000, 100)).speed_ratio, 1.0 / kChains, 1e-9);
}

TEST(RooflinePrediction, KnowsNoRoofOfACache) {
  EXPECT_FALSE(by_simd(counted(64, 1, 10)).speed_ratio) << "the copy rate is that of memory";
  EXPECT_TRUE(by_simd(counted(64, 1000, 10)).speed_ratio) << "arithmetic is the same wherever the weights are";
}

}  // namespace
}  // namespace tenfold
