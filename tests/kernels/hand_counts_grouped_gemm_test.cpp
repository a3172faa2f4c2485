// The hand counts of kernels/grouped_gemm/README.md: three accesses of each rung, for whole tiles and for partial ones.
#include "kernel_device.h"

#ifndef TENFOLD_COUNTED

TEST(HandCountsGroupedGemm, AreOfTheMicroscope) {
  GTEST_SKIP() << "nothing counts here: a GPU does not say what it moved, nor does a build with sanitizers";
}

#else

#include <cuda_bf16.h>

#include "kernels/grouped_gemm/grouped_gemm_case.h"

namespace tenfold::test {
namespace {

using kernels::kGroupedGatherRung;
using kernels::kGroupedGemmRungs;
using kernels::kGroupedPersistentRung;
using simt::Access;
using simt::Kind;
using simt::Report;
using simt::Space;

struct Layer {
  std::vector<int> counts;
  int64_t depth, columns;

  std::vector<int> offsets() const {
    std::vector<int> sums{0};
    for (const int count : counts) sums.push_back(sums.back() + count);
    return sums;
  }
  int64_t experts() const { return static_cast<int64_t>(counts.size()); }
  int64_t rows() const { return offsets().back(); }
  int64_t largest() const { return *std::ranges::max_element(counts); }
  int64_t row_tiles() const {
    int64_t tiles = 0;
    for (const int count : counts) tiles += parts(count, 128);
    return tiles;
  }
  int64_t column_tiles() const { return parts(columns, 128); }
};
// Whole tiles and an expert without rows; then rows that end within tiles, more than 32 experts, and a last tile of
// columns and a last iteration that are half empty. Rows are of whole sectors.
Layer whole() { return {{128, 0, 256}, 128, 256}; }
Layer partial() {
  std::vector<int> counts(40, 0);
  counts[1] = 9, counts[33] = 150, counts[39] = 64;
  return {counts, 144, 208};
}

class GroupedGemmByHand : public KernelTest {
 protected:
  static constexpr int64_t kBlocks = 3;
  Report seen(const Layer& layer, int rung) {
    device_.reset();
    const kernels::GroupedBuffers<__nv_bfloat16> buffers{
        &device_, {layer.rows(), layer.experts(), layer.depth, layer.columns}, layer.offsets(), kBlocks, rung};
    simt::fill_normal(44, {buffers.x, buffers.weights});
    buffers.launch();
    expect_clean();
    return device_.report();
  }
  static int64_t sectors(const Report& report, Kind kind, const char* buffer) {
    return sum(report, Space::global, kind, buffer).sectors;
  }
};

// A row of d values is d / 16 sectors.
TEST_F(GroupedGemmByHand, PaddedFillsItsBuffersAndReadsThemForEachColumnOfTiles) {
  for (const Layer& l : {whole(), partial()}) {
    const Report report = seen(l, 0);
    const int64_t buffers = l.experts() * l.largest(), tiles = l.experts() * parts(l.largest(), 128);
    EXPECT_EQ(sectors(report, Kind::load, "x"), l.rows() * l.depth / 16);
    EXPECT_EQ(sectors(report, Kind::store, "workspace"), buffers * (l.depth + l.columns) / 16);
    EXPECT_EQ(sectors(report, Kind::load, "workspace"),
              buffers * l.depth / 16 * l.column_tiles() + l.rows() * l.columns / 16);
    EXPECT_EQ(sectors(report, Kind::load, "weights"), tiles * l.depth * l.columns / 16);
    EXPECT_EQ(sectors(report, Kind::store, "out"), l.rows() * l.columns / 16);
  }
}

TEST_F(GroupedGemmByHand, EveryOtherRungReadsRowsForEachColumnOfTilesAndWeightsForEachRowOfThem) {
  for (const Layer& l : {whole(), partial()}) {
    for (int rung = 1; rung < kGroupedGemmRungs; ++rung) {
      const Report report = seen(l, rung);
      const int64_t once = l.rows() * l.depth / 16;
      if (rung < kGroupedGatherRung) {
        EXPECT_EQ(sectors(report, Kind::load, "x"), once) << rung;
        EXPECT_EQ(sectors(report, Kind::store, "workspace"), once) << rung;
        EXPECT_EQ(sectors(report, Kind::load, "workspace"), once * l.column_tiles()) << rung;
      } else {
        EXPECT_EQ(sectors(report, Kind::load, "x"), once * l.column_tiles()) << rung;
        EXPECT_EQ(total(report, Space::global, Kind::store, "workspace").requests, 0) << rung;
      }
      EXPECT_EQ(sectors(report, Kind::load, "weights"), l.row_tiles() * l.depth * l.columns / 16) << rung;
      EXPECT_EQ(sectors(report, Kind::store, "out"), l.rows() * l.columns / 16) << rung;
    }
  }
}

// Two requests of each of 8 warps for 32 experts, and two for a tile's own. A block of rung 2 reads as far as its
// tile's expert, and one without a tile all; a block of rung 3 reads all of them once, however many tiles it computes.
TEST_F(GroupedGemmByHand, OffsetsAreReadForEachBlockAndNotForEachTile) {
  for (const Layer& l : {whole(), partial()}) {
    const int64_t permutes = parts(l.rows(), 8) * 8;  // a warp of the copy asks for the last one
    const auto requests = [&](int rung) { return sum(seen(l, rung), Space::global, Kind::load, "offsets").requests; };
    const int64_t own = 16 * l.row_tiles() * l.column_tiles();
    int64_t of_grid = 0;
    for (size_t e = 0; e < l.counts.size(); ++e) {
      const int64_t searches = static_cast<int64_t>(e) / 32 + 1;
      of_grid += 16 * parts(l.counts[e], 128) * l.column_tiles() * searches;
    }
    const int64_t most = (l.rows() + std::min(l.rows(), l.experts()) * 127) / 128, all = parts(l.experts(), 32);
    of_grid += 16 * (most - l.row_tiles()) * l.column_tiles() * all;
    EXPECT_EQ(requests(2), permutes + own + of_grid);
    EXPECT_EQ(requests(3), permutes + own + 16 * all * kBlocks);
    EXPECT_EQ(requests(4), own + 16 * all * kBlocks);
  }
}

// A thread asks for the places of its two rows once for a tile: 8 warps, 8 rows each.
TEST_F(GroupedGemmByHand, PlacesOfRowsAreReadOnceForATile) {
  const Layer l = whole();
  const Access places = sum(seen(l, kGroupedGatherRung), Space::global, Kind::load, "row_of");
  EXPECT_EQ(places.requests, 16 * l.row_tiles() * l.column_tiles());
  EXPECT_EQ(places.sectors, places.requests);
  EXPECT_EQ(sum(seen(l, kGroupedPersistentRung), Space::global, Kind::load, "row_of").requests, l.rows());
}

// 64 rows by 128 columns of a tile of 128 x 128 are half of it: 16 x 8 x 16 at a time, 64 for each 16 of depth.
TEST_F(GroupedGemmByHand, TailsMultiplyHalfOfATileThatHas64RowsOrFewer) {
  const Layer l = partial();  // tiles of 9; 128 and 22; 64 rows
  const int64_t for_half = 64 * 2 * parts(l.depth, 32) * l.column_tiles();
  EXPECT_EQ(seen(l, kGroupedGatherRung).matrix_multiplies, 4 * 2 * for_half);
  EXPECT_EQ(seen(l, kGroupedGemmRungs - 1).matrix_multiplies, 5 * for_half);
}

// Each row of x for each column of tiles, each row of dout for each row of them, and every gradient stored, that of the
// expert without rows among them.
TEST_F(GroupedGemmByHand, TheWeightsGradientReadsRowsAndStoresEveryExpert) {
  for (const Layer& l : {whole(), partial()}) {
    device_.reset();
    const kernels::GroupedGradientBuffers<__nv_bfloat16> buffers{
        &device_, {l.rows(), l.experts(), l.depth, l.columns}, l.offsets()};
    simt::fill_normal(45, {buffers.x, buffers.dout});
    buffers.launch();
    expect_clean();
    const Report report = device_.report();
    EXPECT_EQ(sectors(report, Kind::load, "x"), l.rows() * l.depth / 16 * l.column_tiles());
    EXPECT_EQ(sectors(report, Kind::load, "dout"), l.rows() * l.columns / 16 * parts(l.depth, 128));
    EXPECT_EQ(sectors(report, Kind::store, "dweights"), l.experts() * l.depth * l.columns / 16);
  }
}

}  // namespace
}  // namespace tenfold::test

#endif
