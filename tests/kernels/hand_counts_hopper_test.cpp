// The hand counts of Hopper's rungs in kernels/hgemm/README.md: boxes that TMA copies, operands that wgmma reads, and
// the results. Shapes: one that the tiles cover exactly and one with partial tiles.
#include "kernel_device.h"

#ifndef TENFOLD_COUNTED

TEST(HandCountsHopper, AreOfTheMicroscope) {
  GTEST_SKIP() << "nothing counts here: a GPU does not say what it moved, nor does a build with sanitizers";
}

#else

#include <cuda_bf16.h>

#include "kernels/hgemm/hgemm.h"
#include "wgmma_counts.h"

namespace tenfold::test {
namespace {

using simt::Access;
using simt::Kind;
using simt::Report;
using simt::Space;

struct Size {
  int64_t m, n, k;
};

class HandCountsHopper : public testing::TestWithParam<int> {  // of a rung
 protected:
  Report report_of(Size size) {
    using T = __nv_bfloat16;
    simt::Device device({.reuse = true, .multiprocessors = 2});
    const auto a = device.buffer<T>("a", size.m * size.k), b = device.buffer<T>("b", size.k * size.n),
               c = device.buffer<T>("c", size.m * size.n);
    for (const auto& buffer : {a, b}) std::fill(buffer.begin(), buffer.end(), T(1.0F));
    kernels::hgemm<T, simt::Stream>(&device, c.data(), a.data(), b.data(), size.m, size.n, size.k, GetParam());
    EXPECT_TRUE(device.report().clean());
    return device.report();
  }
};

constexpr Size kWhole{256, 512, 192}, kPartial{112, 272, 48};
constexpr int kBoxOfA = 128 * 128, kBoxOfB = 64 * 128, kOperandA = 64 * 32, kOperandB = 256 * 32;  // bytes

TEST_P(HandCountsHopper, Boxes) {
  // The tile that a copy of B is for, and the blocks that it goes to: in a cluster two, of which the last may have no
  // rows of A.
  const int64_t rows_of_b = GetParam() < 8 ? 128 : 256, blocks = rows_of_b / 128;
  for (const auto& [m, n, k] : {kWhole, kPartial}) {
    const Report report = report_of({m, n, k});
    const int64_t steps = parts(m, rows_of_b) * blocks * parts(n, 256) * parts(k, 64);  // of all blocks and tiles
    const Access a_read = moved(report, Space::global, Kind::load, kBoxOfA),
                 b_read = moved(report, Space::global, Kind::load, kBoxOfB),
                 a_written = moved(report, Space::shared, Kind::store, kBoxOfA),
                 b_written = moved(report, Space::shared, Kind::store, kBoxOfB);
    EXPECT_EQ(a_read.buffer, "a");
    EXPECT_EQ(b_read.buffer, "b");
    EXPECT_EQ(a_read.requests, parts(m, 128) * parts(n, 256) * parts(k, 64)) << "nor does one outside of A";
    EXPECT_EQ(b_read.requests, parts(m, rows_of_b) * parts(k, 64) * parts(n, 64)) << "a box outside of B reads nothing";
    EXPECT_EQ(a_read.sectors, parts(n, 256) * m * k / 16) << "nor do rows and columns outside";
    EXPECT_EQ(b_read.sectors, parts(m, rows_of_b) * k * n / 16);
    if (GetParam() < 7) {  // a block has one tile, and no sector of A twice
      EXPECT_EQ(report.kernels.at(0).touches.at("a").first_reads, a_read.sectors);
    }
    EXPECT_EQ(a_written.requests, steps);
    EXPECT_EQ(b_written.requests, 4 * steps);
    EXPECT_EQ(a_written.wavefronts, 128 * steps) << "128 bytes each";
    EXPECT_EQ(b_written.wavefronts, 256 * steps);
  }
  const Report report = report_of(kWhole);
  const int64_t loaded = (GetParam() < 8 ? 3 : 2) * kWhole.m * kWhole.n * kWhole.k / 128;
  EXPECT_EQ(report.sectors() * 32, loaded + 2 * kWhole.m * kWhole.n);
}

// Two warpgroups multiply, four times 16 in depth.
TEST_P(HandCountsHopper, Operands) {
  for (const auto& [m, n, k] : {kWhole, kPartial}) {
    const Report report = report_of({m, n, k});
    const int64_t row_tiles = GetParam() < 8 ? parts(m, 128) : 2 * parts(m, 256);
    const int64_t products = row_tiles * parts(n, 256) * parts(k, 64) * 2 * 4;
    expect_operands(report, products, {kOperandA, 16}, {kOperandB, 64});
  }
  const Report report = report_of(kWhole);
  constexpr int64_t kFmas = kWhole.m * kWhole.n * kWhole.k;
  EXPECT_EQ(report.matrix_multiplies, kFmas / 262144);
  const int64_t results = GetParam() < 9 ? 0 : kWhole.m * kWhole.n / 64;  // that TMA reads, 128 bytes each
  EXPECT_EQ(sum(report, Space::shared, Kind::load).wavefronts, 5 * kFmas / 16384 + results);
}

TEST_P(HandCountsHopper, Results) {
  for (const auto& [m, n, k] : {kWhole, kPartial})
    EXPECT_EQ(sum(report_of({m, n, k}), Space::global, Kind::store, "c").sectors, m * n / 16);
  const Report report = report_of(kWhole);
  const Access store = sum(report, Space::global, Kind::store, "c");
  if (GetParam() == 9) {  // boxes of 16 rows of 64, which a warp has written as words, each row's in other banks
    EXPECT_EQ(store.requests, kWhole.m * kWhole.n / 1024);
    EXPECT_EQ(store.sectors, 64 * store.requests);
    const Access words = moved(report, Space::shared, Kind::store, 4);
    EXPECT_EQ(words.requests, kWhole.m * kWhole.n / 64);
    EXPECT_EQ(words.wavefronts, words.requests);
    return;
  }
  // 16 bytes for each lane: 8 rows of 4 neighbours, which are 2 sectors each.
  EXPECT_EQ(store.requests, kWhole.m * kWhole.n / 256);
  EXPECT_EQ(store.sectors, 16 * store.requests);
}

// Tiles wait for each other at mbarriers: once for each stage that is filled and, but for rung 5, for each that is
// free.
TEST_P(HandCountsHopper, Waits) {
  const Report report = report_of(kWhole);
  int64_t waits = 0, arrivals = 0;
  for (const simt::Operation& operation : report.kernels.at(0).operations) {
    waits += operation.name == "mbarrier wait" ? operation.count : 0;
    arrivals += operation.name == "mbarrier arrival" ? operation.count : 0;
  }
  constexpr int64_t kSteps = 2 * 2 * 3;  // of all tiles
  EXPECT_EQ(waits, GetParam() == 5 ? 8 * kSteps : 8 * kSteps + kSteps) << "of 8 warps that multiply, and of one";
  // The producer's, and those of the warps that have read: of a cluster's, at the barriers of both blocks.
  EXPECT_EQ(arrivals, GetParam() == 5 ? kSteps : kSteps + (GetParam() < 8 ? 8 : 16) * kSteps);
}

INSTANTIATE_TEST_SUITE_P(Rungs, HandCountsHopper, testing::Range(kernels::kHgemmRungs, kernels::kHgemmAllRungs));

}  // namespace
}  // namespace tenfold::test

#endif
