// The hand counts of kernels/{transpose,reduction,sgemm,hgemm,decode_attention}/README.md: what arithmetic on a page
// says must be what the microscope counts. Shapes: one that the tiles cover exactly and one with partial tiles; both of
// rows that fill sectors.
#include "kernel_device.h"

#ifndef TENFOLD_COUNTED

TEST(HandCounts, AreOfTheMicroscope) {
  GTEST_SKIP() << "nothing counts here: a GPU does not say what it moved, nor does a build with sanitizers";
}

#else

#include <cuda_bf16.h>

#include "kernels/decode_attention/decode_attention_case.h"
#include "kernels/hgemm/hgemm.h"
#include "kernels/reduction/reduction.h"
#include "kernels/sgemm/sgemm.h"
#include "kernels/transpose/transpose.h"

namespace tenfold::test {
namespace {

using simt::Access;
using simt::Kind;
using simt::Report;
using simt::Space;

// --- transpose -----------------------------------------------------------------------------------------------------
struct Matrix {
  int64_t rows, columns;
};
constexpr Matrix kMatrices[] = {{64, 192}, {40, 72}};

class TransposeByHand : public KernelTest {
 protected:
  Report seen(Matrix matrix, int rung) {
    device_.reset();
    const auto in = copied(normal_values(matrix.rows * matrix.columns, 40));
    const auto out = poisoned<float>(matrix.rows * matrix.columns);
    kernels::transpose(stream(), out.data(), in.data(), matrix.rows, matrix.columns, rung);
    expect_clean();
    return device_.report();
  }
};

TEST_F(TransposeByHand, NaiveReadStoresOneSectorForEachElement) {
  for (const auto& [rows, columns] : kMatrices) {
    const Report report = seen({rows, columns}, 0);
    const Access load = sum(report, Space::global, Kind::load, "in"),
                 store = sum(report, Space::global, Kind::store, "out");
    EXPECT_EQ(load.requests, rows * parts(columns, 32));
    EXPECT_EQ(load.sectors, rows * columns / 8);
    EXPECT_EQ(store.requests, load.requests);
    EXPECT_EQ(store.sectors, rows * columns);
    EXPECT_EQ(report.sectors() * 32, 36 * rows * columns);
  }
}

TEST_F(TransposeByHand, NaiveWriteLoadsOneSectorForEachElement) {
  for (const auto& [rows, columns] : kMatrices) {
    const Report report = seen({rows, columns}, 1);
    EXPECT_EQ(sum(report, Space::global, Kind::load, "in").sectors, rows * columns);
    EXPECT_EQ(sum(report, Space::global, Kind::store, "out").sectors, rows * columns / 8);
    EXPECT_EQ(report.sectors() * 32, 36 * rows * columns);
  }
}

TEST_F(TransposeByHand, ATileMovesTheLeastAndAColumnOfItIsOnePassForEachLane) {
  for (const auto& [rows, columns] : kMatrices) {
    const Report tiled = seen({rows, columns}, 2), padded = seen({rows, columns}, 3);
    for (const Report& report : {tiled, padded}) {
      EXPECT_EQ(report.sectors() * 32, 8 * rows * columns);
      EXPECT_EQ(sum(report, Space::shared, Kind::store).wavefronts, rows * parts(columns, 32));
      EXPECT_EQ(sum(report, Space::shared, Kind::load).requests, columns * parts(rows, 32));
    }
    EXPECT_EQ(sum(tiled, Space::shared, Kind::load).wavefronts, rows * columns);
    EXPECT_EQ(sum(padded, Space::shared, Kind::load).wavefronts, columns * parts(rows, 32));
  }
}

TEST_F(TransposeByHand, SixteenBytesPerLaneAreAQuarterOfTheRequests) {
  for (const auto& [rows, columns] : kMatrices) {
    const Report report = seen({rows, columns}, 4);
    EXPECT_EQ(report.sectors() * 32, 8 * rows * columns);
    EXPECT_EQ(sum(report, Space::global, Kind::load, "in").requests, rows / 4 * parts(columns, 32));
    EXPECT_EQ(sum(report, Space::global, Kind::store, "out").requests, columns / 4 * parts(rows, 32));
    // Four stores to the tile for each load and four loads from it for each store, one pass each.
    EXPECT_EQ(sum(report, Space::shared, Kind::store).wavefronts, rows * parts(columns, 32));
    EXPECT_EQ(sum(report, Space::shared, Kind::load).wavefronts, columns * parts(rows, 32));
  }
}

// --- reduction -----------------------------------------------------------------------------------------------------
constexpr int64_t kCounts[] = {65536, 100096};  // the second one is no power of two: 391 blocks of 256

class ReductionByHand : public KernelTest {
 protected:
  Report seen(int64_t n, int rung) {
    device_.reset();
    const auto in = copied(normal_values(n, 41));
    const auto out = poisoned<float>(1);
    const auto workspace = device_.buffer<kernels::ReductionWorkspace>("workspace", 1);
    workspace[0].blocks_done = 0;
    kernels::reduce_sum(stream(), out.data(), in.data(), n, workspace.data(), rung);
    expect_clean();
    return device_.report();
  }
};

TEST_F(ReductionByHand, EachElementIsReadOnceAndRungZeroAddsEachInAnAtomic) {
  for (const int64_t n : kCounts) {
    const Report report = seen(n, 0);
    const Access load = sum(report, Space::global, Kind::load, "in"),
                 atomic = sum(report, Space::global, Kind::atomic, "out");
    EXPECT_EQ(load.requests, n / 32);
    EXPECT_EQ(load.sectors, n / 8);
    EXPECT_EQ(atomic.requests, n / 32);
    EXPECT_EQ(atomic.lanes, n);
    EXPECT_EQ(atomic.sectors, n / 32);  // 32 lanes, one address
  }
}

TEST_F(ReductionByHand, TreesDifferInTheirRequestsAndNotInTheirLanes) {
  for (const int64_t n : kCounts) {
    const int64_t blocks = n / 256;
    constexpr int64_t kTree[] = {8 + 8 + 8 + 8 + 8 + 4 + 2 + 1,
                                 4 + 2 + 1 + 1 + 1 + 1 + 1 + 1};  // warps at work, step by step
    for (int rung = 1; rung <= 2; ++rung) {
      SCOPED_TRACE("rung " + std::to_string(rung));
      const Report report = seen(n, rung);
      const Access load = sum(report, Space::shared, Kind::load), store = sum(report, Space::shared, Kind::store);
      EXPECT_EQ(store.requests, blocks * (8 + kTree[rung - 1]));
      EXPECT_EQ(load.requests, blocks * (2 * kTree[rung - 1] + 1));
      EXPECT_EQ(store.lanes, blocks * (256 + 255));
      EXPECT_EQ(load.lanes, blocks * (2 * 255 + 1));
      EXPECT_EQ(store.wavefronts + load.wavefronts, store.requests + load.requests);  // no bank conflict in either
      EXPECT_EQ(report.barriers, blocks * 9);
      EXPECT_EQ(sum(report, Space::global, Kind::atomic, "out").requests, blocks);
      EXPECT_EQ(sum(report, Space::global, Kind::load, "in").sectors, n / 8);
    }
  }
}

TEST_F(ReductionByHand, TheLastBlockReadsSixteenSectorsPerRequestAndAFewSums) {
  for (const int64_t n : kCounts) {
    const int64_t blocks = parts(n, 16 * 256);
    const Report report = seen(n, 5);
    const Access load = sum(report, Space::global, Kind::load, "in"),
                 sums = sum(report, Space::global, Kind::load, "workspace");
    EXPECT_EQ(load.requests, n / 128);
    EXPECT_EQ(load.sectors, n / 8);
    EXPECT_EQ(sums.lanes, blocks);
    EXPECT_EQ(sums.sectors, parts(blocks, 8));
    EXPECT_EQ(sum(report, Space::global, Kind::atomic, "workspace").requests, blocks);
    EXPECT_EQ(sum(report, Space::global, Kind::store, "workspace").requests, blocks + 1);
    EXPECT_EQ(sum(report, Space::global, Kind::store, "out").requests, 1);
    EXPECT_EQ(report.launches, 1);
    EXPECT_EQ(report.barriers, 2 * blocks + 1);
  }
}

// --- sgemm -----------------------------------------------------------------------------------------------------------
struct Product {
  int64_t m, n, k;
};
constexpr Product kProducts[] = {{128, 256, 64}, {40, 72, 24}};

class SgemmByHand : public KernelTest {
 protected:
  Report seen(Product p, int rung) {
    device_.reset();
    const auto a = copied(normal_values(p.m * p.k, 1), "a"), b = copied(normal_values(p.k * p.n, 2), "b");
    const auto c = poisoned<float>(p.m * p.n, "c");
    kernels::sgemm(stream(), c.data(), a.data(), b.data(), p.m, p.n, p.k, 1, 0, rung);
    expect_clean();
    return device_.report();
  }
};

TEST_F(SgemmByHand, NaiveNeedsASectorOfAForEachProductAndCoalescedOneForEachWarp) {
  for (const auto& [m, n, k] : kProducts) {
    const Report naive = seen({m, n, k}, 0), coalesced = seen({m, n, k}, 1);
    EXPECT_EQ(sum(naive, Space::global, Kind::load, "a").sectors, m * n * k);
    EXPECT_EQ(sum(naive, Space::global, Kind::load, "b").sectors, parts(m, 32) * n * k);
    EXPECT_EQ(sum(naive, Space::global, Kind::store, "c").sectors, m * n);
    EXPECT_EQ(sum(coalesced, Space::global, Kind::load, "a").sectors, m * parts(n, 32) * k);
    EXPECT_EQ(sum(coalesced, Space::global, Kind::load, "b").sectors, m * n / 8 * k);
    EXPECT_EQ(sum(coalesced, Space::global, Kind::store, "c").sectors, m * n / 8);
  }
}

TEST_F(SgemmByHand, TheWholeTilesOfThePageMoveWhatThePageSays) {
  constexpr auto kWhole = kProducts[0];
  constexpr int64_t kProductsOfScalars = kWhole.m * kWhole.n * kWhole.k;
  const int64_t moved[] = {33 * kProductsOfScalars, 5 * kProductsOfScalars, kProductsOfScalars / 4,
                           kProductsOfScalars / 8, kProductsOfScalars / 16};
  for (int rung = 0; rung <= 4; ++rung) {
    const Report report = seen(kWhole, rung);
    EXPECT_EQ(sum(report, Space::global, Kind::load, "a").bytes_moved() +
                  sum(report, Space::global, Kind::load, "b").bytes_moved(),
              moved[rung])
        << "rung " << rung;
  }
}

TEST_F(SgemmByHand, ATileOfTMovesEachValueOnceForTUses) {
  constexpr int64_t kTiles[] = {32, 64, 128, 128, 128, 128};  // of rungs 2 to 7
  for (const auto& [m, n, k] : kProducts) {
    for (int rung = 2; rung < kernels::kSgemmRungs; ++rung) {
      SCOPED_TRACE("rung " + std::to_string(rung) + ", m " + std::to_string(m));
      const int64_t tile = kTiles[rung - 2];
      const Report report = seen({m, n, k}, rung);
      EXPECT_EQ(sum(report, Space::global, Kind::load, "a").sectors, parts(n, tile) * m * k / 8);
      EXPECT_EQ(sum(report, Space::global, Kind::load, "b").sectors, parts(m, tile) * k * n / 8);
      EXPECT_EQ(sum(report, Space::global, Kind::store, "c").sectors, m * n / 8);
    }
  }
}

TEST_F(SgemmByHand, RegistersCutTheReadsOfSharedMemory) {
  struct Reads {
    int rung;
    int64_t tile, depth, warps, each;  // each: requests of a warp for one value of the depth
  };
  constexpr Reads kReads[] = {
      {2, 32, 32, 32, 2}, {3, 64, 8, 16, 9}, {4, 128, 8, 8, 16}, {5, 128, 8, 8, 4}, {7, 128, 16, 8, 4}};
  for (const auto& [m, n, k] : kProducts) {
    for (const auto& [rung, tile, depth, warps, each] : kReads) {
      // Partial tiles are filled up with zeros, and multiplied.
      EXPECT_EQ(sum(seen({m, n, k}, rung), Space::shared, Kind::load).requests,
                parts(m, tile) * parts(n, tile) * warps * parts(k, depth) * depth * each)
          << "rung " << rung << ", m " << m;
    }
  }
}

// --- hgemm ---------------------------------------------------------------------------------------------------------
constexpr Product kHalfProducts[] = {{128, 256, 64}, {112, 272, 48}};

TEST(HgemmByHand, TilesFragmentsAndTensorCores) {
  struct Rung {
    int64_t rows, columns;         // of a block's tile
    int64_t requests, multiplies;  // shared loads of a warp for one step of 16 in depth, and its mma
  };
  constexpr Rung kRungs[] = {{128, 128, 32, 16}, {128, 128, 6, 16}, {128, 128, 6, 16}, {128, 256, 8, 32}};  // 1 to 4
  using T = __nv_bfloat16;
  for (const auto& [m, n, k] : kHalfProducts) {
    for (int rung = 1; rung < kernels::kHgemmRungs; ++rung) {
      SCOPED_TRACE("rung " + std::to_string(rung) + ", m " + std::to_string(m));
      simt::Device device;
      const auto a = device.buffer<T>("a", m * k), b = device.buffer<T>("b", k * n), c = device.buffer<T>("c", m * n);
      for (const auto& buffer : {a, b}) std::fill(buffer.begin(), buffer.end(), T(1.0F));
      kernels::hgemm<T, simt::Stream>(&device, c.data(), a.data(), b.data(), m, n, k, rung);
      const Report report = device.report();
      EXPECT_TRUE(report.clean());
      const auto& [rows, columns, requests, multiplies] = kRungs[rung - 1];
      EXPECT_EQ(sum(report, Space::global, Kind::load, "a").sectors, parts(n, columns) * m * k / 16);
      EXPECT_EQ(sum(report, Space::global, Kind::load, "b").sectors, parts(m, rows) * k * n / 16);
      // Partial tiles are filled up with zeros, and multiplied.
      const int64_t all = parts(m, rows) * rows * parts(n, columns) * columns * parts(k, 32) * 32 / 2048;
      EXPECT_EQ(report.matrix_multiplies, all);
      const Access fragments = sum(report, Space::shared, Kind::load);
      EXPECT_EQ(fragments.requests, all / multiplies * requests);
      EXPECT_EQ(fragments.wavefronts, 4 * fragments.requests);
      if (m % rows == 0 && n % columns == 0) {
        const int64_t products = m * n * k;
        EXPECT_EQ(report.matrix_multiplies, products / 2048);
        const int64_t moved[] = {products / 32, products / 32, products / 32, 3 * products / 128};
        EXPECT_EQ((sum(report, Space::global, Kind::load, "a").bytes_moved() +
                   sum(report, Space::global, Kind::load, "b").bytes_moved()),
                  moved[rung - 1]);
        const int64_t wavefronts[] = {products / 256, 3 * products / 4096, 3 * products / 4096, products / 2048};
        EXPECT_EQ(fragments.wavefronts, wavefronts[rung - 1]);
      }
    }
  }
}

// --- decode attention ----------------------------------------------------------------------------------------------
struct Decoding {
  int64_t batch, kv_heads, group, keys, width;
};
// Whole pages and pieces; then a last page of three keys, and a group that no block is compiled for.
constexpr Decoding kDecodings[] = {{2, 2, 8, 512, 128}, {2, 3, 3, 307, 64}};

class DecodeByHand : public KernelTest {
 protected:
  Report seen(const Decoding& d, int rung) {
    device_.reset();
    const kernels::DecodeBuffers<__nv_bfloat16> buffers{
        &device_, {d.batch, d.kv_heads * d.group, d.kv_heads, d.keys, d.width}, rung};
    simt::fill_normal(43, {buffers.q, buffers.k, buffers.v});
    std::ranges::fill(buffers.lengths, static_cast<int>(d.keys));
    buffers.launch();
    splits_ = buffers.splits;
    expect_clean();
    return device_.report();
  }
  int splits_ = 1;
};

TEST_F(DecodeByHand, AThreadForAKeyTouchesASectorForEachValue) {
  for (const Decoding& d : kDecodings) {
    const int64_t heads = d.batch * d.kv_heads * d.group, pairs = heads * d.keys;
    const Report report = seen(d, 0);
    const Access k = sum(report, Space::global, Kind::load, "k"), v = sum(report, Space::global, Kind::load, "v");
    EXPECT_EQ(k.requests, heads * parts(d.keys, 32) * d.width);
    EXPECT_EQ(k.sectors, pairs * d.width);
    EXPECT_EQ(v.requests, pairs * d.width / 32);
    EXPECT_EQ(v.sectors, pairs * d.width / 16);
    EXPECT_EQ(sum(report, Space::global, Kind::store, "workspace").requests, 2 * heads * parts(d.keys, 32));
  }
}

TEST_F(DecodeByHand, AGroupReadsPacketsOfItsCacheOnce) {
  for (const Decoding& d : kDecodings) {
    const int64_t caches = d.batch * d.kv_heads, heads = caches * d.group;
    for (int rung = 1; rung < kernels::kDecodeAttentionRungs; ++rung) {
      const Report report = seen(d, rung);
      const int64_t readers = rung < 4 ? heads : caches;
      for (const char* buffer : {"k", "v"}) {
        const Access load = sum(report, Space::global, Kind::load, buffer);
        EXPECT_EQ(load.requests, readers * (rung < 3 ? d.keys * d.width / 32 : parts(d.keys * d.width, 256))) << rung;
        EXPECT_EQ(load.sectors, readers * d.keys * d.width / 16) << rung;
      }
    }
  }
}

TEST_F(DecodeByHand, PartsPagesAndProducts) {
  for (const Decoding& d : kDecodings) {
    const int64_t caches = d.batch * d.kv_heads, heads = caches * d.group;
    const int64_t step = (d.group > 4 ? 2 : 4) * 256 / d.width;  // keys that a warp of rung 6 reads after a look-up
    for (const int rung : {5, 6, 7}) {
      const Report report = seen(d, rung);
      EXPECT_EQ(total(report, Space::global, Kind::load, "pages").sectors,
                rung == 5 ? 0 : caches * parts(d.keys, rung == 6 ? step : 16));
      EXPECT_EQ(report.matrix_multiplies, rung < 7 ? 0 : caches * parts(d.keys, 16) * d.width / 4);
      int64_t stored = 0;
      for (const Access& access : report.accesses)
        stored += access.kind == Kind::store && access.buffer == "workspace" ? access.bytes_asked() : 0;
      EXPECT_EQ(stored, splits_ > 1 ? 4 * heads * splits_ * (d.width + 2) : 0) << rung;
    }
  }
}

}  // namespace
}  // namespace tenfold::test

#endif
