#pragma once
// Rungs 3 and 4 of the ladder of hgemm.cuh: copies that run ahead of the multiplication.

#include "hgemm_tile.cuh"

namespace tenfold::kernels {

/// Tiles of A and B in shared memory at a time; all but one of them are on their way.
inline constexpr int kHgemmStages = 4;

/// Rung 3: cp.async. A tile no longer passes through registers, and three of four are on their way while one is
/// multiplied, so that even the latency of DRAM hides behind 3 steps. One barrier for each step: behind it this step's
/// tile is there for everybody, and nobody reads the last one's any more, whose place the next copy may take. The same
/// bytes move as in rung 2, in as many requests.
template <class T, bool kVectors>
static __global__ void __launch_bounds__(256, kVectors ? 2 : 1)
    hgemm_cp_async(T* c, const T* a, const T* b, int m, int n, int k) {
  constexpr int kTile = 128, kRows = 4, kColumns = 4, kStage = hgemm_stage(kTile, kTile);
  T* const stages = dynamic_shared<T>();
  const int column_tiles = (n + kTile - 1) / kTile;
  const int row0 = blockIdx.x / column_tiles * kTile, column0 = blockIdx.x % column_tiles * kTile;
  const int warp = threadIdx.x / 32, warp_row = warp / 4 * 64, warp_column = warp % 4 * 32;
  const int steps = (k + kHgemmDepth - 1) / kHgemmDepth;
  const auto start = [&](int step) {
    T* const a_tile = stages + step % kHgemmStages * kStage;
    if (step < steps) {
      hgemm_copy<HgemmCopy::async, kVectors, kTile, kHgemmDepth>(a_tile, a, m, k, row0, step * kHgemmDepth);
      hgemm_copy<HgemmCopy::async, kVectors, kHgemmDepth, kTile>(a_tile + kTile * kHgemmDepth, b, k, n,
                                                                 step * kHgemmDepth, column0);
    }
    cp_async_commit();  // of nothing at the end, so that the wait below counts right
  };
  for (int step = 0; step < kHgemmStages - 1; ++step) start(step);

  float sum[kRows][kColumns][4] = {};
  for (int step = 0; step < steps; ++step) {
    cp_async_wait<kHgemmStages - 2>();
    __syncthreads();
    start(step + kHgemmStages - 1);
    const T* const a_tile = stages + step % kHgemmStages * kStage;
#pragma unroll
    for (int part = 0; part < kHgemmDepth / 16; ++part) {
      HgemmFragments<kRows, kColumns> fragments;
      hgemm_load_fragments<kTile>(fragments, a_tile, a_tile + kTile * kHgemmDepth, warp_row, warp_column, part);
      hgemm_multiply<T>(sum, fragments);
    }
  }
  hgemm_store<kVectors>(c, m, n, row0 + warp_row, column0 + warp_column, sum);
}

/// Rung 4: a larger tile. A warp computes 64 x 64 results instead of 64 x 32, a block 128 x 256: 8 ldmatrix for 32 mma
/// instead of 6 for 16, and 3/4 of the bytes from global memory. The sums take half of the 255 registers there can be,
/// so that one block fills a multiprocessor and no second one covers its waits: fragments are loaded one step before
/// they are used, the next stage's first ones included. Blocks walk C in groups of 8 rows of tiles, so that what runs
/// at a time shares more of A and B in L2.
template <class T, bool kVectors>
static __global__ void __launch_bounds__(256, 1) hgemm_large_tile(T* c, const T* a, const T* b, int m, int n, int k) {
  constexpr int kTileRows = 128, kTileColumns = 256, kRows = 4, kColumns = 8,
                kStage = hgemm_stage(kTileRows, kTileColumns);
  T* const stages = dynamic_shared<T>();
  const auto [row_tile, column_tile] =
      hgemm_tile(static_cast<int>(blockIdx.x), (m + kTileRows - 1) / kTileRows, (n + kTileColumns - 1) / kTileColumns);
  const int row0 = row_tile * kTileRows, column0 = column_tile * kTileColumns;
  const int warp = threadIdx.x / 32, warp_row = warp / 4 * 64, warp_column = warp % 4 * 64;
  const int steps = (k + kHgemmDepth - 1) / kHgemmDepth;
  const auto start = [&](int step) {
    T* const a_tile = stages + step % kHgemmStages * kStage;
    if (step < steps) {
      hgemm_copy<HgemmCopy::async, kVectors, kTileRows, kHgemmDepth>(a_tile, a, m, k, row0, step * kHgemmDepth);
      hgemm_copy<HgemmCopy::async, kVectors, kHgemmDepth, kTileColumns>(a_tile + kTileRows * kHgemmDepth, b, k, n,
                                                                        step * kHgemmDepth, column0);
    }
    cp_async_commit();
  };
  HgemmFragments<kRows, kColumns> fragments[2];
  const auto load = [&](int step, int part) {
    const T* const a_tile = stages + step % kHgemmStages * kStage;
    hgemm_load_fragments<kTileColumns>(fragments[part], a_tile, a_tile + kTileRows * kHgemmDepth, warp_row, warp_column,
                                       part);
  };
  for (int step = 0; step < kHgemmStages - 1; ++step) start(step);
  cp_async_wait<kHgemmStages - 2>();
  __syncthreads();
  load(0, 0);

  float sum[kRows][kColumns][4] = {};
  for (int step = 0; step < steps; ++step) {
    load(step, 1);
    start(step + kHgemmStages - 1);  // into the place of the last step, which all have left at the barrier below
    hgemm_multiply<T>(sum, fragments[0]);
    cp_async_wait<kHgemmStages - 2>();
    __syncthreads();
    if (step + 1 < steps) load(step + 1, 0);
    hgemm_multiply<T>(sum, fragments[1]);
  }
  hgemm_store<kVectors>(c, m, n, row0 + warp_row, column0 + warp_column, sum);
}

}  // namespace tenfold::kernels
