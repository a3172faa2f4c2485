// The hand counts of kernels/split_k/README.md: three accesses of each rung, for whole tiles and for partial ones.
#include "kernel_device.h"

#ifndef TENFOLD_COUNTED

TEST(HandCountsSplitK, AreOfTheMicroscope) {
  GTEST_SKIP() << "nothing counts here: a GPU does not say what it moved, nor does a build with sanitizers";
}

#else

#include <cuda_bf16.h>

#include <numeric>

#include "kernels/split_k/split_k_case.h"

namespace tenfold::test {
namespace {

using simt::Access;
using simt::Kind;
using simt::Report;
using simt::Space;

struct Product {
  int64_t m, n, k;
  int64_t row_tiles() const { return parts(m, 128); }
  int64_t column_tiles() const { return parts(n, 128); }
  int64_t tiles() const { return row_tiles() * column_tiles(); }
  int64_t iterations() const { return parts(k, 32); }
};
// Whole tiles; then partial ones of whole sectors, whose last iteration is half empty. 2 and 6 tiles of 12.
constexpr Product kProducts[] = {{128, 256, 384}, {144, 272, 368}};

class SplitKByHand : public KernelTest {
 protected:
  Report seen(const Product& p, int64_t parts, int rung) {
    device_.reset();
    const kernels::SplitKBuffers<__nv_bfloat16> buffers{&device_, p.m, p.n, p.k, parts, rung};
    simt::fill_normal(44, {buffers.a, buffers.b});
    buffers.launch();
    expect_clean();
    return device_.report();
  }
  static void expect_access(const Report& report, Kind kind, const char* buffer, int64_t requests, int64_t sectors) {
    const Access access = sum(report, Space::global, kind, buffer);
    EXPECT_EQ(access.requests, requests) << buffer;
    EXPECT_EQ(access.sectors, sectors) << buffer;
  }
};

TEST_F(SplitKByHand, EveryRungLoadsAAndBAsOftenAsTilesNeedThem) {
  for (const Product& p : kProducts) {
    for (int rung = 0; rung < kernels::kSplitKRungs; ++rung) {
      const Report report = seen(p, 3, rung);
      EXPECT_EQ(sum(report, Space::global, Kind::load, "a").sectors, p.column_tiles() * p.m * p.k / 16) << rung;
      EXPECT_EQ(sum(report, Space::global, Kind::load, "b").sectors, p.row_tiles() * p.k * p.n / 16) << rung;
      if (rung != 1 && rung != 2)  // a float2 of each lane: 8 rows of a sector
        expect_access(report, Kind::store, "c", p.m * p.n / 64, p.m * p.n / 8);
    }
  }
}

TEST_F(SplitKByHand, TheWorkspaceIsAMatrixForEachPiece) {
  for (const Product& p : kProducts) {
    for (const int64_t pieces : {2, 3}) {
      const Report report = seen(p, pieces, 1);
      const int64_t values = p.m * p.n;
      expect_access(report, Kind::store, "workspace", pieces * values / 64, pieces * values / 8);
      expect_access(report, Kind::load, "workspace", pieces * parts(values, 128), pieces * values / 8);
      expect_access(report, Kind::store, "c", parts(values, 128), values / 8);
      EXPECT_EQ(report.launches, 2);
    }
  }
}

TEST_F(SplitKByHand, AtomicsTouchEverySectorTwiceForEachPiece) {
  for (const Product& p : kProducts) {
    for (const int64_t pieces : {2, 3}) {
      const Report report = seen(p, pieces, 2);
      const int64_t values = p.m * p.n;
      expect_access(report, Kind::atomic, "c", pieces * values / 32, pieces * values / 4);
      expect_access(report, Kind::store, "c", values / 32, values / 8);
      EXPECT_EQ(sum(report, Space::global, Kind::atomic, "c").lanes, pieces * values);
    }
  }
}

TEST_F(SplitKByHand, TheLastBlockReadsWholeTiles) {
  for (const Product& p : kProducts) {
    for (const int64_t pieces : {2, 3}) {
      const Report report = seen(p, pieces, 3);
      const int64_t blocks = p.tiles() * pieces;
      expect_access(report, Kind::store, "workspace", 128 * blocks, 2048 * blocks);
      expect_access(report, Kind::load, "workspace", 128 * blocks, 2048 * blocks);
      expect_access(report, Kind::atomic, "counters", blocks, blocks);
      EXPECT_EQ(report.launches, 1);
    }
  }
}

TEST_F(SplitKByHand, AShareLeavesATileUnlessItBeginsWithOne) {
  for (const Product& p : kProducts) {
    for (const int64_t length : {3, 4, 8, 12, 24}) {  // of a share; it divides the line
      const int64_t line = p.tiles() * p.iterations(), blocks = line / length;
      const int64_t left = blocks - line / std::lcm(length, p.iterations());
      const Report report = seen(p, blocks, kernels::kStreamKRung);
      if (left == 0) {
        EXPECT_EQ(total(report, Space::global, Kind::store, "workspace").requests, 0);
        continue;
      }
      expect_access(report, Kind::store, "workspace", 128 * left, 2048 * left);
      expect_access(report, Kind::load, "workspace", 128 * left, 2048 * left);
      expect_access(report, Kind::atomic, "counters", 2 * left, 2 * left);  // raised, and taken down
    }
  }
}

// 7 tiles of 3 iterations on 2 blocks: 4 whole ones, and 3 in one line of 9, cut after 5; on 3 blocks 3 whole, and 4 in
// a line of 12, cut after 4 and 8. On 7 blocks all are whole.
TEST_F(SplitKByHand, TwoTileLeavesATileForEachBlockButTheFirst) {
  constexpr Product kSeven{128, 896, 96};
  for (const int64_t blocks : {2, 3}) {
    const Report report = seen(kSeven, blocks, kernels::kTwoTileRung);
    const int64_t left = blocks - 1;
    expect_access(report, Kind::store, "workspace", 128 * left, 2048 * left);
    expect_access(report, Kind::load, "workspace", 128 * left, 2048 * left);
    expect_access(report, Kind::atomic, "counters", 2 * left, 2 * left);
  }
  EXPECT_EQ(total(seen(kSeven, 7, kernels::kTwoTileRung), Space::global, Kind::store, "workspace").requests, 0);
}

// Many tiles of a short k: what split-K adds is as much as it loads, and it has nothing to gain.
TEST_F(SplitKByHand, ManyTilesOfShortKMoveMoreInTwoPieces) {
  constexpr Product kShort{512, 512, 256};  // 16 tiles of 8 iterations
  const auto moved = [&](int64_t pieces, int rung) { return 32 * seen(kShort, pieces, rung).sectors(); };
  constexpr int64_t kLoads = 16 * 8 * (16 << 10), kC = 512 * 512 * 4, kPartial = 16 * (64 << 10);
  EXPECT_EQ(moved(1, 0), kLoads + kC);
  EXPECT_EQ(moved(2, 1), kLoads + kC + 4 * kPartial);
  EXPECT_EQ(moved(2, 2), kLoads + kC + 4 * kPartial);            // C set to 0, and each sector twice for a piece
  EXPECT_EQ(moved(2, 3), kLoads + kC + 4 * kPartial + 48 * 32);  // counters: 32 raised, 16 set back
  EXPECT_EQ(kLoads, 2 * kPartial);
}

}  // namespace
}  // namespace tenfold::test

#endif
