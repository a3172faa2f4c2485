#pragma once
// What the rungs of split_k.cuh share: the product of some iterations of a tile, and the ways that its sums leave. The
// tile is that of hgemm's rung 3.

#include "kernels/hgemm/hgemm_tile.cuh"
#include "split_k.h"

namespace tenfold::kernels {

/// Threads of a block; stages of the copies that run ahead; fragments of a warp's 64 x 32 sums.
inline constexpr int kSplitKThreads = 256, kSplitKStages = 4, kSplitKRows = 4, kSplitKColumns = 4;
inline constexpr int kSplitKStage = hgemm_stage(kSplitKTile, kSplitKTile);

template <class T>
struct SplitKInput {
  const T *a, *b;
  int m, n, k, column_tiles;
};

/// A thread's 64 sums of a tile, as mma leaves them.
using SplitKSums = float[kSplitKRows][kSplitKColumns][4];

/// The part's product in `sum`. Copies run three iterations ahead by cp.async, with one barrier an iteration, and start
/// anew with each part: before the next one all threads must have left this one.
template <bool kVectors, class T>
__device__ inline void split_k_multiply(SplitKSums& sum, const SplitKInput<T>& in, const TilePart& part) {
  constexpr int kTile = kSplitKTile;
  T* const stages = dynamic_shared<T>();
  const int row0 = static_cast<int>(part.tile / in.column_tiles) * kTile,
            column0 = static_cast<int>(part.tile % in.column_tiles) * kTile;
  const int warp = threadIdx.x / 32, warp_row = warp / 4 * 64, warp_column = warp % 4 * 32;
  const auto start = [&](int step) {
    T* const a_tile = stages + step % kSplitKStages * kSplitKStage;
    if (step < part.end) {
      hgemm_copy<HgemmCopy::async, kVectors, kTile, kHgemmDepth>(a_tile, in.a, in.m, in.k, row0, step * kHgemmDepth);
      hgemm_copy<HgemmCopy::async, kVectors, kHgemmDepth, kTile>(a_tile + kTile * kHgemmDepth, in.b, in.k, in.n,
                                                                 step * kHgemmDepth, column0);
    }
    cp_async_commit();  // of nothing at the end, so that the wait below counts right
  };
  for (int ahead = 0; ahead < kSplitKStages - 1; ++ahead) start(part.begin + ahead);
#pragma unroll
  for (int i = 0; i < kSplitKRows; ++i) {
#pragma unroll
    for (int j = 0; j < kSplitKColumns; ++j) {
#pragma unroll
      for (float& value : sum[i][j]) value = 0;
    }
  }
  for (int step = part.begin; step < part.end; ++step) {
    cp_async_wait<kSplitKStages - 2>();
    __syncthreads();
    start(step + kSplitKStages - 1);
    const T* const a_tile = stages + step % kSplitKStages * kSplitKStage;
#pragma unroll
    for (int half = 0; half < kHgemmDepth / 16; ++half) {
      HgemmFragments<kSplitKRows, kSplitKColumns> fragments;
      hgemm_load_fragments<kTile>(fragments, a_tile, a_tile + kTile * kHgemmDepth, warp_row, warp_column, half);
      hgemm_multiply<T>(sum, fragments);
    }
  }
}

/// Calls write(offset in C, first, second, whether the second is inside) for each pair of neighbours in a thread's sums
/// that begins inside C. The four lanes of a row have 8 floats: a sector.
template <class Write>
__device__ inline void split_k_each_pair(const SplitKSums& sum, int m, int n, int row0, int column0,
                                         const Write& write) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  row0 += warp / 4 * 64 + lane / 4;
  column0 += warp % 4 * 32 + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < kSplitKRows; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row0 + 16 * i + 8 * half;
#pragma unroll
      for (int j = 0; j < kSplitKColumns; ++j) {
        const int column = column0 + 8 * j;
        if (row < m && column < n)
          write(hgemm_offset(row, n, column), sum[i][j][2 * half], sum[i][j][2 * half + 1], column + 1 < n);
      }
    }
  }
}

/// The sums to their place in a matrix of C's shape.
template <bool kVectors, class T>
__device__ inline void split_k_store(float* c, const SplitKInput<T>& in, int64_t tile, const SplitKSums& sum) {
  const int row0 = static_cast<int>(tile / in.column_tiles * kSplitKTile),
            column0 = static_cast<int>(tile % in.column_tiles * kSplitKTile);
  split_k_each_pair(sum, in.m, in.n, row0, column0, [&](int64_t offset, float first, float second, bool both) {
    if constexpr (kVectors) {
      const float2 two = {first, second};
      *reinterpret_cast<float2*>(c + offset) = two;
    } else {
      c[offset] = first;
      if (both) c[offset + 1] = second;
    }
  });
}

/// Sums q of a thread in slot `slot` of the workspace: 16 bytes beside those of its neighbour, wherever the tile lies
/// in C. Only the same thread of another block reads them.
__device__ inline float4* split_k_slot(float* workspace, int64_t slot, int q) {
  constexpr int kPackets = kSplitKRows * kSplitKColumns;
  return reinterpret_cast<float4*>(workspace) + (slot * kPackets + q) * kSplitKThreads + threadIdx.x;
}

__device__ inline void split_k_leave(float* workspace, int64_t slot, const SplitKSums& sum) {
#pragma unroll
  for (int q = 0; q < kSplitKRows * kSplitKColumns; ++q) {
    const float* from = sum[q / kSplitKColumns][q % kSplitKColumns];
    const float4 four = {from[0], from[1], from[2], from[3]};
    *split_k_slot(workspace, slot, q) = four;
  }
}

/// sum = or += what a block has left.
template <bool kAdd>
__device__ inline void split_k_take(SplitKSums& sum, float* workspace, int64_t slot) {
#pragma unroll
  for (int q = 0; q < kSplitKRows * kSplitKColumns; ++q) {
    const float4 four = *split_k_slot(workspace, slot, q);
    float* to = sum[q / kSplitKColumns][q % kSplitKColumns];
    to[0] = kAdd ? to[0] + four.x : four.x;
    to[1] = kAdd ? to[1] + four.y : four.y;
    to[2] = kAdd ? to[2] + four.z : four.z;
    to[3] = kAdd ? to[3] + four.w : four.w;
  }
}

}  // namespace tenfold::kernels
