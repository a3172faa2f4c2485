// How often lines run, what caches would see of a block, and launches of which only some blocks run.
#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "common/microscope/reuse.h"
#include "engine_test.h"

namespace tenfold::test {
namespace {

using simt::KernelCounts;

TEST(StackDistance, IsTheLinesInBetween) {
  simt::StackDistance distance;
  std::vector<int64_t> found;
  for (const uint64_t line : {7, 7, 8, 9, 7, 9}) found.push_back(distance.touch(line));
  EXPECT_EQ(found, (std::vector<int64_t>{simt::StackDistance::kFirst, 0, simt::StackDistance::kFirst,
                                         simt::StackDistance::kFirst, 2, 1}));
  distance.clear();
  EXPECT_EQ(distance.touch(7), simt::StackDistance::kFirst);
}

// Also beyond the room that it begins with.
TEST(StackDistance, AgreesWithAListThatIsSearched) {
  std::mt19937 random(1);
  simt::StackDistance distance;
  std::vector<uint64_t> recent;  // the last touched one first
  for (int i = 0; i < 20000; ++i) {
    const uint64_t line = random() % (i % 1000 < 900 ? 40 : 3000);
    const auto found = std::find(recent.begin(), recent.end(), line);
    const int64_t expected = found == recent.end() ? simt::StackDistance::kFirst : found - recent.begin();
    ASSERT_EQ(distance.touch(line), expected) << i;
    if (found != recent.end()) recent.erase(found);
    recent.insert(recent.begin(), line);
  }
}

class Executions : public EngineTest {
 protected:
  KernelCounts of(const std::string& kernel, const Launch& launch, int64_t n, simt::Options options) const {
    options.races = false;
    simt::Device device(options);
    const auto out = device.buffer<float>("out", 4096), in = device.buffer<float>("in", 4096);
    run_kernel(&device, kernel, launch, out.data(), in.data(), n);
    const auto kernels = device.report().kernels;
    EXPECT_EQ(kernels.size(), 1U);
    return kernels.at(0);
  }
};

TEST_F(Executions, ALoopRunsAsOftenAsItsLongestLane) {
  const KernelCounts counts = of("ragged_loop", {}, 0, {.lines = true});
  const int line = line_of("counts.cuh", "ragged");
  const auto found = std::ranges::find_if(counts.lines, [&](const auto& one) { return one.where.line == line; });
  ASSERT_NE(found, counts.lines.end());
  EXPECT_GE(found->issues, 32);
  EXPECT_LE(found->issues, 33) << "its head is seen once more";
  EXPECT_NE(counts.symbol.find("ragged_loop"), std::string::npos);
  EXPECT_TRUE(of("ragged_loop", {}, 0, {}).lines.empty());
}

TEST_F(Executions, TheSecondWarpFindsWhatTheFirstHasRead) {
  const KernelCounts counts = of("broadcast", {.block = {64, 1, 1}}, 0, {.reuse = true});
  EXPECT_EQ(counts.touches.at("in").first_reads, 1);
  EXPECT_EQ(counts.touches.at("in").bytes, 4096 * 4);
  EXPECT_EQ(counts.reads_again[0], 1) << "nothing in between";
  EXPECT_EQ(counts.touches.at("out").stores, 8);
  EXPECT_EQ(counts.touches.at("out").written, 8);
  const auto load = std::ranges::find(counts.accesses, simt::Kind::load, &simt::Access::kind);
  ASSERT_NE(load, counts.accesses.end());
  EXPECT_EQ(load->lines, 2) << "one of each warp's request";
}

// When a line comes back for its first sector, the other three are not there yet.
TEST_F(Executions, ASectorIsLostWithItsLine) {
  const KernelCounts counts = of("sectors_twice", {}, 512, {.reuse = true});
  EXPECT_EQ(counts.touches.at("in").first_reads, 512);
  for (size_t i = 0; i < counts.reads_again.size(); ++i) {
    const bool holds_all = simt::reuse_bytes(i) > 127 * 128 && (i == 0 || simt::reuse_bytes(i - 1) <= 127 * 128);
    EXPECT_EQ(counts.reads_again[i], holds_all ? 512 : 0) << simt::reuse_bytes(i) << " bytes";
  }
}

TEST_F(Executions, SectorsAreCountedOnceForABlock) {
  const KernelCounts counts = of("ragged_loop", {}, 0, {.reuse = true});
  EXPECT_EQ(counts.touches.at("in").first_reads, 8 * (4 + 3 + 2 + 1)) << "of row i the lanes from i on";
}

TEST_F(Executions, ASampleIsSpreadOverTheGrid) {
  const KernelCounts all = of("strided", {.grid = {10, 1, 1}}, 1, {.reuse = true}),
                     some = of("strided", {.grid = {10, 1, 1}}, 1, {.reuse = true, .sample = 3});
  EXPECT_EQ(all.blocks, 10);
  EXPECT_EQ(some.blocks, 3);
  EXPECT_EQ(some.grid_blocks, 10);
  EXPECT_EQ(all.touches.at("in").first_reads, 40) << "each block for itself";
  EXPECT_EQ(some.touches.at("in").first_reads, 12);
}

}  // namespace
}  // namespace tenfold::test
