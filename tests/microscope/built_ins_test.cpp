// CUDA's built-in functions under the microscope, against what CUDA's programming guide and the PTX manual say of them.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine_test.h"

namespace tenfold::test {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

class BuiltIns : public EngineTest {};

/// The lane that `lane` reads from, as the PTX manual defines shfl.sync, with the operands that CUDA's headers give it.
int source_lane(int mode, int lane, int argument, int width) {
  const int bval = argument & 31, segments = 32 - width;
  const int min_lane = lane & segments, max_lane = mode == 1 ? min_lane : min_lane | (31 & ~segments);
  int from = 0;
  bool inside = false;
  switch (mode) {
    case 0:
      from = min_lane | (bval & ~segments), inside = from <= max_lane;
      break;
    case 1:
      from = lane - bval, inside = from >= max_lane;
      break;
    case 2:
      from = lane + bval, inside = from <= max_lane;
      break;
    default:
      from = lane ^ bval, inside = from <= max_lane;
  }
  return inside ? from : lane;
}

TEST_F(BuiltIns, ShufflesReadTheLaneThatPtxSays) {
  const auto out = device_.buffer<int>("out", 32);
  const auto in = device_.buffer<int>("in", 3);
  for (int mode = 0; mode < 4; ++mode) {
    for (const int width : {2, 4, 8, 16, 32}) {
      for (int argument = 0; argument < 34; ++argument) {
        in[0] = mode, in[1] = argument, in[2] = width;
        std::fill(out.begin(), out.end(), -1);
        run_kernel(&device_, "shuffle", {}, out.data(), in.data());
        std::vector<int> expected(32);
        for (int lane = 0; lane < 32; ++lane)
          expected[static_cast<size_t>(lane)] = 100 + source_lane(mode, lane, argument, width);
        ASSERT_THAT(std::vector<int>(out.begin(), out.end()), ElementsAreArray(expected))
            << "mode " << mode << ", argument " << argument << ", width " << width;
      }
    }
  }
  expect_clean();
}

TEST_F(BuiltIns, ShufflesKeepEveryType) {
  const auto out = device_.buffer<double>("out", 96);
  const auto in = counted<double>("in", 32, 0.125);
  run_kernel(&device_, "shuffle_types", {}, out.data(), in.data());
  for (int64_t lane = 0; lane < 32; ++lane) {
    const double neighbour = in[std::min<int64_t>(lane + 1, 31)];
    EXPECT_EQ(out[lane], neighbour) << lane;
    EXPECT_EQ(out[32 + lane], neighbour) << lane;  // 31.125 is a half
    EXPECT_NEAR(out[64 + lane], neighbour, 1e-13) << lane;
  }
  expect_clean();
}

TEST_F(BuiltIns, DotOfFourBytes) {
  constexpr int kMinusOnes = -1, kLargest = 0x7f7f7f7f, kSmallest = static_cast<int>(0x80808080U);
  const auto in = filled<int>(
      "in", {0x01020304, 0x05060708, kMinusOnes, 0x00000401, kSmallest, kSmallest, kLargest, kSmallest, 1, 1});
  const auto out = filled<int>("out", {0, 10, 0, 7, std::numeric_limits<int>::max()});
  run_kernel(&device_, "dot_of_bytes", {.block = {5, 1, 1}}, out.data(), in.data());
  expect_clean();
  EXPECT_THAT(std::vector<int>(out.begin(), out.end()),
              ElementsAre(1 * 5 + 2 * 6 + 3 * 7 + 4 * 8, 10 - 5, 4 * 128 * 128, 7 - 4 * 127 * 128,
                          std::numeric_limits<int>::min()));  // it wraps
}

TEST_F(BuiltIns, VotesAndReductions) {
  std::vector<int> values(32);
  for (int lane = 0; lane < 32; ++lane) values[static_cast<size_t>(lane)] = lane * 7 % 5 - 2;
  for (const bool all_positive : {false, true}) {
    if (all_positive) {
      for (int& value : values) value += 3;
    }
    const auto in = filled("in", values);
    const auto out = device_.buffer<int>("out", 32 * 8);
    run_kernel(&device_, "votes", {}, out.data(), in.data());
    uint32_t ballot = 0;
    for (size_t lane = 0; lane < 32; ++lane) ballot |= static_cast<uint32_t>(values[lane] > 0) << lane;
    const int sum = std::accumulate(values.begin(), values.end(), 0);
    for (size_t lane = 0; lane < 32; ++lane) {
      uint32_t same = 0;
      for (size_t other = 0; other < 32; ++other) same |= static_cast<uint32_t>(values[other] == values[lane]) << other;
      const int* mine = out.data() + 8 * lane;
      EXPECT_THAT(std::vector<int>(mine, mine + 8),
                  ElementsAre(static_cast<int>(ballot), 1, all_positive ? 1 : 0, static_cast<int>(same), sum,
                              *std::min_element(values.begin(), values.end()),
                              *std::max_element(values.begin(), values.end()), sum))
          << lane;
    }
  }
  expect_clean();
}

TEST_F(BuiltIns, LanesOfAMaskActAlone) {
  const auto in = counted<int>("in", 32);
  const auto out = device_.buffer<int>("out", 64);
  run_kernel(&device_, "split_warp", {}, out.data(), in.data());
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(out[lane], lane % 2 == 0 ? 240 : 31) << lane;
    EXPECT_EQ(out[32 + lane], lane % 2 == 0 ? lane ^ 2 : lane ^ 4) << lane;
  }
  EXPECT_EQ(device_.report().warp_operations, 4);
  expect_clean();
}

TEST_F(BuiltIns, TheLastWarpMayBePartial) {
  const auto out = device_.buffer<int>("out", 80);
  run_kernel(&device_, "partial_warp", {.block = {40, 1, 1}}, out.data());
  for (int thread = 0; thread < 40; ++thread) {
    uint32_t ballot = 0;
    const int first = thread / 32 * 32, lanes = std::min(32, 40 - first);
    for (int lane = 0; lane < lanes; ++lane) ballot |= static_cast<uint32_t>((first + lane) % 3 == 0) << lane;
    EXPECT_EQ(out[2 * thread], static_cast<int>(ballot)) << thread;
    EXPECT_EQ(out[2 * thread + 1], lanes) << thread;
  }
  expect_clean();
}

TEST_F(BuiltIns, BarriersCount) {
  const auto in = counted<int>("in", 70);
  const auto out = device_.buffer<int>("out", 3 * 70);
  for (const int64_t n : {-1, 0, 9, 68, 69}) {
    run_kernel(&device_, "block_votes", {.block = {70, 1, 1}}, out.data(), in.data(), n);
    const int count = static_cast<int>(69 - n);
    for (int64_t thread = 0; thread < 70; ++thread) {
      EXPECT_THAT(std::vector<int>(out.data() + 3 * thread, out.data() + 3 * thread + 3),
                  ElementsAre(count, count != 0, count == 70));
    }
  }
  EXPECT_EQ(device_.report().barriers, 15);
  expect_clean();
}

TEST_F(BuiltIns, AtomicsLoseNothing) {
  constexpr int kCount = 150;
  std::vector<int> values(kCount);
  for (int i = 0; i < kCount; ++i) values[static_cast<size_t>(i)] = i * 37 % 101 - 40;
  const auto in = filled("in", values);
  const auto out = device_.buffer<int>("out", 8 + kCount);
  std::fill(out.begin(), out.end(), 0);
  out[7] = -1;
  run_kernel(&device_, "atomics", {.grid = {3, 1, 1}, .block = {64, 1, 1}}, out.data(), in.data(), kCount);
  const int sum = std::accumulate(values.begin(), values.end(), 0);
  uint32_t product = 0;  // one that begins at 0 stays there: so must the loop's
  for (const int value : values) product *= static_cast<uint32_t>(value | 1);
  float as_float = 0;
  std::memcpy(&as_float, &out[2], sizeof as_float);
  EXPECT_EQ(out[0], sum);
  EXPECT_EQ(static_cast<uint32_t>(out[1]), static_cast<uint32_t>(sum));
  EXPECT_EQ(as_float, static_cast<float>(sum) + 0.5F * kCount);
  EXPECT_EQ(out[3], *std::min_element(values.begin(), values.end()));
  EXPECT_EQ(out[4], *std::max_element(values.begin(), values.end()));
  EXPECT_EQ(out[5], kCount % 10);  // 0 to 9 and round again
  EXPECT_EQ(static_cast<uint32_t>(out[6]), product);
  std::vector<int> exchanged(out.begin() + 8, out.end());
  exchanged.push_back(out[7]);
  std::sort(exchanged.begin(), exchanged.end());  // each number went in once and came out once, -1 among them
  for (int i = 0; i <= kCount; ++i) EXPECT_EQ(exchanged[static_cast<size_t>(i)], i - 1);
  expect_clean();
}

TEST_F(BuiltIns, AtomicsOfPairsRoundEachHalfByItself) {
  const auto in = filled("in", std::vector<int>{3, -2});
  const auto out =
      filled("out", std::vector<int>{0x68006800, 0x43804380});  // 2048 in half, 256 in bfloat16, both twice
  run_kernel(&device_, "atomic_pairs", {.block = {32, 1, 1}}, out.data(), in.data(), 2);
  // Values of half are 2 apart from 2048 on and 1 below. 2048 + 3 is halfway to 2052, whose last bit is 0; then 2 less.
  // 2048 - 1.5 is halfway to 2046; then 1 more. Bfloat16's are as far apart around 256.
  EXPECT_EQ(out[0], 0x67FF6801);  // 2047 in the upper half, 2050 in the lower
  EXPECT_EQ(out[1], 0x437F4381);  // 255 and 258
  for (const simt::Access& access : device_.report().accesses) EXPECT_EQ(access.bytes, 4) << access.buffer;
  expect_clean();
}

TEST_F(BuiltIns, DynamicSharedMemory) {
  const auto in = counted<float>("in", 96);
  const auto out = device_.buffer<float>("out", 96);
  run_kernel(&device_, "dynamic_reverse", {.block = {96, 1, 1}, .shared_bytes = 96 * sizeof(float)}, out.data(),
             in.data(), 96);
  for (int64_t i = 0; i < 96; ++i) EXPECT_EQ(out[i], static_cast<float>(95 - i));
  EXPECT_EQ(device_.report().largest_shared_bytes, 384);
  expect_clean();
}

TEST_F(BuiltIns, GridsAndBlocksOfThreeDimensions) {
  const std::array<uint32_t, 3> grid{3, 2, 2}, block{5, 3, 4};
  const auto out = device_.buffer<int>("out", 6 * 12 * 60);
  run_kernel(&device_, "indices", {.grid = grid, .block = block}, out.data());
  const int* next = out.data();
  for (uint32_t i = 0; i < 12 * 60; ++i, next += 6) {
    const uint32_t b = i / 60, t = i % 60;
    const std::array<uint32_t, 6> expected{b % 3, b / 3 % 2, b / 6, t % 5, t / 5 % 3, t / 15};
    ASSERT_THAT(std::vector<int>(next, next + 6), ElementsAreArray(expected)) << i;
  }
  EXPECT_EQ(device_.report().blocks, 12);
  EXPECT_EQ(device_.report().threads, 720);
  expect_clean();
}

TEST_F(BuiltIns, EveryBlockFindsFreshSharedMemory) {
  const auto out = device_.buffer<int>("out", 8);
  for (int launch = 0; launch < 2; ++launch) {
    run_kernel(&device_, "fresh_shared", {.grid = {4, 1, 1}, .shared_bytes = 128}, out.data());
    EXPECT_THAT(std::vector<int>(out.begin(), out.end()), testing::Each(1)) << launch;
  }
  expect_clean();
}

// Since Volta a barrier waits for the threads that have not left; before, it was undefined, and it is seldom meant.
TEST_F(BuiltIns, ThreadsThatLeaveEarlyAreNotWaitedForButNoted) {
  const auto out = device_.buffer<int>("out", 64);
  run_kernel(&device_, "early_exit", {.block = {64, 1, 1}}, out.data(), nullptr, 40);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(out[i], (i + 1) % 40);
  EXPECT_EQ(out[40], -1);  // the poison: nobody wrote
  const simt::Report report = device_.report();
  EXPECT_TRUE(report.races.empty());
  ASSERT_EQ(report.faults.size(), 1U);
  EXPECT_EQ(report.faults[0].kind, simt::FaultKind::divergent_barrier);
  EXPECT_EQ(report.faults[0].where.line, line_of("built_ins.cuh", "early_exit"));
}

TEST_F(BuiltIns, ALaunchThatNoGpuTakesThrowsOneLine) {
  const auto out = device_.buffer<int>("out", 8);
  const std::vector<Launch> refused = {
      {.block = {1025, 1, 1}},    {.block = {32, 33, 1}},       {.block = {1, 1, 65}},   {.block = {0, 1, 1}},
      {.grid = {0, 1, 1}},        {.grid = {1, 0, 1}},          {.grid = {1, 65536, 1}}, {.grid = {1, 1, 65536}},
      {.grid = {1U << 31, 1, 1}}, {.shared_bytes = 228 * 1024},
  };
  for (size_t i = 0; i < refused.size(); ++i) {
    try {
      run_kernel(&device_, "indices", refused[i], out.data());
      ADD_FAILURE() << "launch " << i << " was taken";
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), testing::StartsWith("kernel launch: "));
      EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
    }
  }
  EXPECT_EQ(device_.report().launches, 0);
  const auto large = device_.buffer<int>("large", 8);
  run_kernel(&device_, "fresh_shared", {.shared_bytes = 227 * 1024}, large.data());
  EXPECT_EQ(device_.report().launches, 1);
}

}  // namespace
}  // namespace tenfold::test
