// The hand counts of kernels/grouped_combine/README.md: three accesses of each rung and of the gradients, for whole
// tiles and for partial ones.
#include "kernel_device.h"

#ifndef TENFOLD_COUNTED

TEST(HandCountsGroupedCombine, AreOfTheMicroscope) {
  GTEST_SKIP() << "nothing counts here: a GPU does not say what it moved, nor does a build with sanitizers";
}

#else

#include <cuda_bf16.h>

#include "kernels/grouped_combine/grouped_combine_case.h"

namespace tenfold::test {
namespace {

using kernels::CombineRoutingBuffers;
using kernels::kCombineFloatsRung;
using kernels::kCombinePairsRung;
using kernels::kCombineTwoPassRung;
using kernels::kGroupedCombineRungs;
using simt::Kind;
using simt::Report;
using simt::Space;

struct Layer {
  std::vector<int> counts;
  int64_t tokens, active, depth, columns;

  std::vector<int> offsets() const {
    std::vector<int> sums{0};
    for (const int count : counts) sums.push_back(sums.back() + count);
    return sums;
  }
  int64_t rows() const { return offsets().back(); }
  int64_t row_tiles() const {
    int64_t tiles = 0;
    for (const int count : counts) tiles += parts(count, 128);
    return tiles;
  }
};
// Whole tiles and an expert without rows; then rows that end within tiles, more than 32 experts, and last tiles and
// iterations that are half empty. Every token has all of its rows. Rows are of whole sectors.
Layer whole() { return {{128, 0, 256}, 192, 2, 128, 256}; }
Layer partial() {
  std::vector<int> counts(40, 0);
  counts[1] = 8, counts[33] = 152, counts[39] = 64;
  return {counts, 56, 4, 144, 208};
}
Layer layers[] = {whole(), partial()};

class GroupedCombineByHand : public KernelTest {
 protected:
  CombineRoutingBuffers routing_of(const Layer& l) {
    device_.reset();
    return {&device_, {l.tokens, l.active, static_cast<int64_t>(l.counts.size()), l.depth, l.columns}, l.offsets()};
  }
  Report seen(const Layer& l, int rung, bool transposed = false) {
    const kernels::CombineBuffers<__nv_bfloat16> buffers{routing_of(l), 3, transposed, rung};
    simt::fill_normal(44, {buffers.rows, buffers.weights});
    buffers.launch();
    expect_clean();
    return device_.report();
  }
  Report seen_backward(const Layer& l) {
    const kernels::CombineBackwardBuffers<__nv_bfloat16> buffers{routing_of(l), 3};
    simt::fill_normal(45, {buffers.dout, buffers.rows, buffers.weights});
    buffers.launch();
    expect_clean();
    return device_.report();
  }
  static int64_t sectors(const Report& report, Kind kind, const char* buffer) {
    return sum(report, Space::global, kind, buffer).sectors;
  }
};

// Each row for each column of tiles, each weight for each row of them, whichever way round it lies.
TEST_F(GroupedCombineByHand, EveryRungReadsRowsForEachColumnOfTilesAndWeightsForEachRowOfThem) {
  for (const Layer& l : layers) {
    for (int rung = 0; rung < kGroupedCombineRungs; ++rung) {
      for (const bool transposed : {false, true}) {
        const Report report = seen(l, rung, transposed);
        EXPECT_EQ(sectors(report, Kind::load, "rows"), l.rows() * l.depth / 16 * parts(l.columns, 128)) << rung;
        EXPECT_EQ(sectors(report, Kind::load, "weights"), l.row_tiles() * l.depth * l.columns / 16) << rung;
      }
    }
  }
}

// T h values of 16 bits written and read, then N h written.
TEST_F(GroupedCombineByHand, TwoPassesWriteAndReadEveryRow) {
  for (const Layer& l : layers) {
    const Report report = seen(l, kCombineTwoPassRung);
    EXPECT_EQ(sectors(report, Kind::store, "workspace"), l.rows() * l.columns / 16);
    EXPECT_EQ(sectors(report, Kind::load, "workspace"), l.rows() * l.columns / 16);
    EXPECT_EQ(sectors(report, Kind::store, "out"), l.tokens * l.columns / 16);
    EXPECT_EQ(sum(report, Space::global, Kind::load, "rows_of").requests, l.tokens);
    EXPECT_EQ(sum(report, Space::global, Kind::load, "scales").requests, l.tokens);
    EXPECT_EQ(total(report, Space::global, Kind::atomic).requests, 0);
  }
}

// Float32 is 8 to a sector: N h written as zeros, T h added, N h read and written as 16 bits.
TEST_F(GroupedCombineByHand, FloatsClearAddAndRound) {
  for (const Layer& l : layers) {
    const Report report = seen(l, kCombineFloatsRung);
    EXPECT_EQ(sectors(report, Kind::store, "workspace"), l.tokens * l.columns / 8);
    EXPECT_EQ(sectors(report, Kind::atomic, "workspace"), l.rows() * l.columns / 8);
    EXPECT_EQ(sectors(report, Kind::load, "workspace"), l.tokens * l.columns / 8);
    EXPECT_EQ(sectors(report, Kind::store, "out"), l.tokens * l.columns / 16);
  }
}

TEST_F(GroupedCombineByHand, PairsClearAndAddHalfOfThat) {
  for (const Layer& l : layers) {
    const Report report = seen(l, kCombinePairsRung);
    EXPECT_EQ(sectors(report, Kind::store, "out"), l.tokens * l.columns / 16);
    EXPECT_EQ(sectors(report, Kind::atomic, "out"), l.rows() * l.columns / 16);
    EXPECT_EQ(total(report, Space::global, Kind::load, "out").requests, 0);
    EXPECT_EQ(total(report, Space::global, Kind::store, "workspace").requests, 0);
  }
}

// In both rungs a warp has 32 lanes' worth of whole sectors: 4 bytes each for 4 rows of 8 lanes. Of 64 rows by 32
// columns that is 64 requests of floats and 32 of pairs.
TEST_F(GroupedCombineByHand, AnAtomicIsFourRowsOfASector) {
  const Layer l = whole();
  const int64_t warps = l.row_tiles() * parts(l.columns, 128) * 8;
  EXPECT_EQ(sum(seen(l, kCombineFloatsRung), Space::global, Kind::atomic, "workspace").requests, 64 * warps);
  EXPECT_EQ(sum(seen(l, kCombinePairsRung), Space::global, Kind::atomic, "out").requests, 32 * warps);
}

// Rows of dout for each column of tiles; the rows once, beside their gradient; and for 32 columns of a row one float,
// written once and read once.
TEST_F(GroupedCombineByHand, TheGradientsReadRowsOnceAndLeaveAFloatForThirtyTwoColumns) {
  for (const Layer& l : layers) {
    const Report report = seen_backward(l);
    const int64_t of_row = parts(l.depth, 128) * 4;
    EXPECT_EQ(sectors(report, Kind::load, "dout"), l.rows() * l.columns / 16 * parts(l.depth, 128));
    EXPECT_EQ(sectors(report, Kind::load, "weights"), l.row_tiles() * l.depth * l.columns / 16);
    EXPECT_EQ(sectors(report, Kind::load, "rows"), l.rows() * l.depth / 16);
    EXPECT_EQ(sectors(report, Kind::store, "drows"), l.rows() * l.depth / 16);
    EXPECT_EQ(sectors(report, Kind::store, "workspace"), l.rows() / 8 * of_row);
    EXPECT_EQ(sectors(report, Kind::load, "workspace"), l.rows() / 8 * of_row);
    EXPECT_EQ(sectors(report, Kind::store, "dscales"), l.rows() / 8);
  }
}

}  // namespace
}  // namespace tenfold::test

#endif
