// The hand counts of kernels/scaled_gemm/README.md: accesses of its rungs on tensor cores, for whole tiles and for
// partial ones.
#include "kernel_device.h"

#ifndef TENFOLD_COUNTED

TEST(HandCountsScaledGemm, AreOfTheMicroscope) {
  GTEST_SKIP() << "nothing counts here: a GPU does not say what it moved, nor does a build with sanitizers";
}

#else

#include "kernels/scaled_gemm/scaled_gemm_case.h"
#include "wgmma_counts.h"

namespace tenfold::test {
namespace {

using simt::Access;
using simt::Kind;
using simt::Report;
using simt::Space;

struct Product {
  int64_t m, n, k;
  int64_t row_tiles() const { return parts(m, 128); }
  int64_t column_tiles() const { return parts(n, 64); }
  int64_t tiles() const { return row_tiles() * column_tiles(); }
  int64_t steps() const { return parts(k, 64); }
  int64_t blocks() const { return parts(k, 128); }
};
// Whole tiles; then partial ones of whole sectors, with half a step at the end.
constexpr Product kProducts[] = {{128, 192, 384}, {144, 72, 288}};

template <class T>
class ScaledGemmByHand : public KernelTest {
 protected:
  Report seen(const Product& p, kernels::ScaledGemmScales scales, int rung) {
    device_.reset();
    const kernels::ScaledGemmBuffers<T> buffers{&device_, p.m, p.n, p.k, scales};
    for (const auto& codes : {buffers.a, buffers.b}) std::ranges::fill(codes, T(1.0F));
    for (const auto& all : {buffers.a_scales, buffers.b_scales}) std::ranges::fill(all, 1.0F);
    buffers.launch(rung);
    expect_clean();
    return device_.report();
  }
  static void expect_global(const Report& report, Kind kind, const char* buffer, int64_t requests, int64_t sectors) {
    const Access access = sum(report, Space::global, kind, buffer);
    EXPECT_EQ(access.requests, requests) << buffer;
    EXPECT_EQ(access.sectors, sectors) << buffer;
  }
};
using ScaledGemmTypes = testing::Types<int8_t, __nv_fp8_e4m3>;
TYPED_TEST_SUITE(ScaledGemmByHand, ScaledGemmTypes);

constexpr auto kBlocks = kernels::ScaledGemmScales::blocks;

TYPED_TEST(ScaledGemmByHand, ALoadBrings32BytesASector) {
  for (const Product& p : kProducts) {
    for (const int rung : {2, 3, 4}) {
      const Report report = this->seen(p, kBlocks, rung);
      EXPECT_EQ(sum(report, Space::global, Kind::load, "a").sectors, p.column_tiles() * p.m * p.k / 32) << rung;
      EXPECT_EQ(sum(report, Space::global, Kind::load, "b").sectors, p.row_tiles() * p.n * p.k / 32) << rung;
      this->expect_global(report, Kind::store, "c", p.m * p.n / 64, p.m * p.n / 8);
    }
  }
}

// 8 warps ask twice 2 times for 8 rows side by side, and for one scale of B, of every tile in every block of k.
TYPED_TEST(ScaledGemmByHand, ScalesOfEightRowsAreASector) {
  for (const Product& p : kProducts) {
    for (const int rung : {2, 3, 4}) {
      const Report report = this->seen(p, kBlocks, rung);
      const int64_t row_groups = p.m / 8;  // of 8 rows, which two warps of every tile ask for
      this->expect_global(report, Kind::load, "a_scales", 2 * row_groups * p.column_tiles() * p.blocks(),
                          2 * row_groups * p.column_tiles() * p.blocks());
      this->expect_global(report, Kind::load, "b_scales", 8 * p.tiles() * p.blocks(), 8 * p.tiles() * p.blocks());
    }
  }
}

// A warp's 32 x 32 results want 2 fragments of A and 4 of B for each 32 of k: 8 + 8 words, or 2 + 2 ldmatrix of 4.
TYPED_TEST(ScaledGemmByHand, FragmentsTakeSixteenWordsOrFourLdmatrix) {
  for (const Product& p : kProducts) {
    const int64_t warp_parts = 8 * p.tiles() * p.steps() * 2;
    const Access words = sum(this->seen(p, kBlocks, 2), Space::shared, Kind::load);
    EXPECT_EQ(words.requests, 16 * warp_parts);
    EXPECT_EQ(words.wavefronts, 64 * warp_parts);
    for (const int rung : {3, 4}) {
      const Access matrices = sum(this->seen(p, kBlocks, rung), Space::shared, Kind::load);
      EXPECT_EQ(matrices.requests, 4 * warp_parts) << rung;
      EXPECT_EQ(matrices.wavefronts, 16 * warp_parts) << rung;
    }
    for (const int rung : {2, 3, 4}) {
      const Report report = this->seen(p, kBlocks, rung);
      EXPECT_EQ(sum(report, Space::shared, Kind::store).wavefronts, p.tiles() * p.steps() * 192 * 64 / 128) << rung;
      EXPECT_EQ(report.matrix_multiplies, 8 * warp_parts) << rung;
    }
  }
}

TYPED_TEST(ScaledGemmByHand, OneScaleIsLoadedOnce) {
  for (const Product& p : kProducts) {
    const Report report = this->seen(p, kernels::ScaledGemmScales::tensor, 4);
    EXPECT_LE(sum(report, Space::global, Kind::load, "a_scales").requests, 8 * p.tiles() * 4);
    this->expect_global(report, Kind::load, "b_scales", 8 * p.tiles(), 8 * p.tiles());
  }
}

/// Rungs 5 to 7, of Hopper.
class ScaledGemmHopperByHand : public ScaledGemmByHand<__nv_fp8_e4m3>, public testing::WithParamInterface<int> {
 protected:
  static constexpr int64_t kTile = 128 * 128, kOperandA = 64 * 32, kOperandB = 128 * 32;  // bytes
  /// Blocks that share a tile of B, and how often rows of tiles of A and of B are copied; in a cluster of two the last
  /// block may have no rows of A, and does as if it had.
  static int64_t cluster() { return GetParam() == 7 ? 2 : 1; }
  static int64_t rows_of_b(const Product& p) { return parts(p.m, 128 * cluster()); }
  static int64_t rows_of_a(const Product& p) { return cluster() * rows_of_b(p); }
  static int64_t columns(const Product& p) { return parts(p.n, 128); }
  /// Of all blocks, tiles of C and blocks of k.
  static int64_t steps(const Product& p) { return rows_of_a(p) * columns(p) * p.blocks(); }
};

// A box of A and one of B for each tile of C and block of k, or in a cluster a half of B's for both blocks; rows and
// columns outside are not read.
TEST_P(ScaledGemmHopperByHand, ATileAndABlockOfKAreTwoBoxes) {
  for (const Product& p : kProducts) {
    const Report report = seen(p, kBlocks, GetParam());
    const int64_t share = kTile / cluster(), halves_within = parts(p.n, 128 / cluster());
    const Access a_read = moved(report, Space::global, Kind::load, kTile, "a"),
                 b_read = moved(report, Space::global, Kind::load, share, "b");
    EXPECT_EQ(a_read.requests, parts(p.m, 128) * columns(p) * p.blocks());
    EXPECT_EQ(b_read.requests, rows_of_b(p) * halves_within * p.blocks());
    EXPECT_EQ(a_read.sectors, columns(p) * p.m * p.k / 32);
    EXPECT_EQ(b_read.sectors, rows_of_b(p) * p.n * p.k / 32);
    const Access written = sum(report, Space::shared, Kind::store);
    EXPECT_EQ(written.requests, (1 + cluster()) * steps(p));
    EXPECT_EQ(written.wavefronts, 2 * 128 * steps(p));
    expect_global(report, Kind::store, "c", p.m * p.n / 64, p.m * p.n / 8);
  }
}

// One warp of each tile asks for each 8 rows, and all 8 for the scale of B.
TEST_P(ScaledGemmHopperByHand, ScalesOfEightRowsAreASector) {
  for (const Product& p : kProducts) {
    const Report report = seen(p, kBlocks, GetParam());
    const int64_t eights = columns(p) * p.m / 8 * p.blocks();
    expect_global(report, Kind::load, "a_scales", eights, eights);
    expect_global(report, Kind::load, "b_scales", 8 * steps(p), 8 * steps(p));
  }
}

// Two warpgroups multiply, four times 32 of each block of k.
TEST_P(ScaledGemmHopperByHand, OperandsComeFromSharedMemoryWithoutConflicts) {
  for (const Product& p : kProducts) {
    const Report report = seen(p, kBlocks, GetParam());
    expect_operands(report, 2 * 4 * steps(p), {kOperandA, 16}, {kOperandB, 32});
  }
}

// Each warp that multiplies waits once for each stage, and says once to each block of its cluster that it is read; and
// one thread that copies.
TEST_P(ScaledGemmHopperByHand, StagesAreWaitedForOnce) {
  for (const Product& p : kProducts) {
    const Report report = seen(p, kBlocks, GetParam());
    int64_t waits = 0, arrivals = 0;
    for (const simt::Operation& operation : report.kernels.at(0).operations) {
      waits += operation.name == "mbarrier wait" ? operation.count : 0;
      arrivals += operation.name == "mbarrier arrival" ? operation.count : 0;
    }
    EXPECT_EQ(waits, (8 + 1) * steps(p));
    EXPECT_EQ(arrivals, (8 * cluster() + 1) * steps(p));
  }
}

INSTANTIATE_TEST_SUITE_P(Rungs, ScaledGemmHopperByHand,
                         testing::Range(kernels::kScaledGemmRungs, kernels::kScaledGemmAllRungs<__nv_fp8_e4m3>));

}  // namespace
}  // namespace tenfold::test

#endif
