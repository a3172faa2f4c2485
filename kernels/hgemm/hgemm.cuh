#pragma once
// The ladder of C (m, n) = A (m, k) * B (k, n) in 16 bits with sums in float32. hgemm.h says what each rung is called;
// rungs 3 and 4 are in hgemm_pipeline.cuh.
//
// In every rung a block computes one tile of C with 256 threads. The grid is one-dimensional. Where a tile reaches over
// the edge of a matrix, loads give 0 and nothing is stored.

#include "hgemm_tile.cuh"

namespace tenfold::kernels {

/// Four neighbours of a row, 0 beyond the edges; one load of 8 bytes with kVectors.
template <bool kVectors, class T>
__device__ inline Packet<T, 4> hgemm_load4(const T* matrix, int rows, int columns, int row, int column) {
  Packet<T, 4> four = {};
  if (row >= rows) return four;
  const T* from = matrix + hgemm_offset(row, columns, column);
  if constexpr (kVectors) {
    if (column < columns) four = *packets_of<4>(from);
  } else {
    for (int i = 0; i < 4; ++i) {
      if (column + i < columns) four.values[i] = from[i];
    }
  }
  return four;
}

/// Rung 0: CUDA cores, as in the last rung of sgemm: a thread computes 8 x 8 results from float4 in shared memory, a
/// warp 64 x 32, a block 128 x 128, with two tiles in turn. Elements are widened to float on their way to shared
/// memory, so that global memory moves half of sgemm's bytes and everything behind it is the same: the multiply-adds of
/// the CUDA cores are what costs.
template <class T, bool kVectors>
static __global__ void __launch_bounds__(256, kVectors ? 2 : 1)
    hgemm_cuda_cores(T* c, const T* a, const T* b, int m, int n, int k) {
  constexpr int kTile = 128, kDepth = 16, kResults = 8;
  constexpr int kLaneRows = 32, kLaneColumns = 16;            // from one 4 x 4 square of a thread's results to the next
  alignas(16) __shared__ float a_tile[2][kDepth][kTile + 4];  // (buffer, depth, row)
  alignas(16) __shared__ float b_tile[2][kDepth][kTile];      // (buffer, depth, column)
  const int column_tiles = (n + kTile - 1) / kTile;
  const int row0 = blockIdx.x / column_tiles * kTile, column0 = blockIdx.x % column_tiles * kTile;
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int thread_row = warp / 4 * 64 + lane / 4 * 4, thread_column = warp % 4 * 32 + lane % 4 * 4;
  const int a_row = thread / 4, a_column = thread % 4 * 4;  // and 64 rows on; 4 lanes share a sector
  const int b_row = thread / 32, b_column = lane * 4;       // and 8 rows on
  float sum[kResults][kResults] = {};
  Packet<T, 4> copy_a[2], copy_b[2];
  const auto load = [&](int k0) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      copy_a[half] = hgemm_load4<kVectors>(a, m, k, row0 + a_row + 64 * half, k0 + a_column);
      copy_b[half] = hgemm_load4<kVectors>(b, k, n, k0 + b_row + 8 * half, column0 + b_column);
    }
  };
  load(0);
  int now = 0;
  for (int k0 = 0; k0 < k; k0 += kDepth) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const T *from_a = copy_a[half].values, *from_b = copy_b[half].values;
      for (int i = 0; i < 4; ++i) a_tile[now][a_column + i][a_row + 64 * half] = to_float(from_a[i]);
      const float4 four = {to_float(from_b[0]), to_float(from_b[1]), to_float(from_b[2]), to_float(from_b[3])};
      reinterpret_cast<float4&>(b_tile[now][b_row + 8 * half][b_column]) = four;
    }
    __syncthreads();
    load(k0 + kDepth);  // used in the next step
#pragma unroll 4        // more would take more registers than two blocks on a multiprocessor leave
    for (int i = 0; i < kDepth; ++i) {
      const float4 a0 = reinterpret_cast<const float4&>(a_tile[now][i][thread_row]);
      const float4 a1 = reinterpret_cast<const float4&>(a_tile[now][i][thread_row + kLaneRows]);
      const float4 b0 = reinterpret_cast<const float4&>(b_tile[now][i][thread_column]);
      const float4 b1 = reinterpret_cast<const float4&>(b_tile[now][i][thread_column + kLaneColumns]);
      const float from_a[kResults] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
      const float from_b[kResults] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
#pragma unroll
      for (int r = 0; r < kResults; ++r) {
#pragma unroll
        for (int s = 0; s < kResults; ++s) sum[r][s] += from_a[r] * from_b[s];
      }
    }
    now = 1 - now;
  }
#pragma unroll
  for (int r = 0; r < kResults; ++r) {
    const int row = row0 + thread_row + r / 4 * kLaneRows + r % 4;
    if (row >= m) continue;
#pragma unroll
    for (int s = 0; s < kResults; s += 4) {
      const int column = column0 + thread_column + s / 4 * kLaneColumns;
      T* to = c + hgemm_offset(row, n, column);
      const Packet<T, 4> four = {{from_float<T>(sum[r][s]), from_float<T>(sum[r][s + 1]), from_float<T>(sum[r][s + 2]),
                                  from_float<T>(sum[r][s + 3])}};
      if constexpr (kVectors) {
        if (column < n) *packets_of<4>(to) = four;
      } else {
        for (int i = 0; i < 4; ++i) {
          if (column + i < n) to[i] = four.values[i];
        }
      }
    }
  }
}

/// Rung 1: tensor cores. One mma.sync multiplies 16 x 16 by 16 x 8 elements: 2048 FMAs in one instruction of a
/// warp, where CUDA cores do 32. A warp computes 64 x 32 results, as before, from fragments that lie spread over its
/// lanes and are loaded element by element as the PTX ISA lays them out: 4 bytes at a time from A, 2 from B, because
/// two neighbours of a fragment of B lie in two rows. 4 of the 8 rows of A, and all 4 of B, meet in the same banks: 4
/// passes for each of these loads.
template <class T, bool kVectors>
static __global__ void __launch_bounds__(256) hgemm_mma(T* c, const T* a, const T* b, int m, int n, int k) {
  constexpr int kTile = 128, kRows = 4, kColumns = 4;  // of fragments in a warp
  T* const a_tile = dynamic_shared<T>();
  T* const b_tile = a_tile + kTile * kHgemmDepth;
  const int column_tiles = (n + kTile - 1) / kTile;
  const int row0 = blockIdx.x / column_tiles * kTile, column0 = blockIdx.x % column_tiles * kTile;
  const int warp = threadIdx.x / 32, warp_row = warp / 4 * 64, warp_column = warp % 4 * 32;
  const int group = threadIdx.x % 32 / 4, in_group = threadIdx.x % 4;
  float sum[kRows][kColumns][4] = {};
  for (int k0 = 0; k0 < k; k0 += kHgemmDepth) {
    hgemm_copy<HgemmCopy::plain, kVectors, kTile, kHgemmDepth>(a_tile, a, m, k, row0, k0);
    hgemm_copy<HgemmCopy::plain, kVectors, kHgemmDepth, kTile>(b_tile, b, k, n, k0, column0);
    __syncthreads();
#pragma unroll
    for (int step = 0; step < kHgemmDepth; step += 16) {
      HgemmFragments<kRows, kColumns> fragments;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const T* from =
              a_tile + (warp_row + 16 * i + group + r % 2 * 8) * kHgemmDepth + step + 2 * in_group + r / 2 * 8;
          fragments.a[i][r] = *reinterpret_cast<const uint32_t*>(from);
        }
      }
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const T* from = b_tile + (step + 2 * in_group + r * 8) * kTile + warp_column + 8 * j + group;
          const auto* bits = reinterpret_cast<const uint16_t*>(from);
          fragments.b[j][r] = uint32_t{bits[kTile]} << 16 | bits[0];
        }
      }
      hgemm_multiply<T>(sum, fragments);
    }
    __syncthreads();  // nobody overwrites a tile that another still reads
  }
  hgemm_store<kVectors>(c, m, n, row0 + warp_row, column0 + warp_column, sum);
}

/// Rung 2: ldmatrix loads four 8 x 8 matrices in one instruction and gives every lane what mma wants; for B it
/// transposes them on the way. Its 8 rows of 16 bytes would meet in the banks just as before, so that packets change
/// places within their row, by the row's number (a swizzle; padding would do as well, and takes room): 4 passes for
/// each request of 512 bytes, the least there is.
template <class T, bool kVectors>
static __global__ void __launch_bounds__(256) hgemm_ldmatrix(T* c, const T* a, const T* b, int m, int n, int k) {
  constexpr int kTile = 128, kRows = 4, kColumns = 4;
  T* const a_tile = dynamic_shared<T>();
  T* const b_tile = a_tile + kTile * kHgemmDepth;
  const int column_tiles = (n + kTile - 1) / kTile;
  const int row0 = blockIdx.x / column_tiles * kTile, column0 = blockIdx.x % column_tiles * kTile;
  const int warp = threadIdx.x / 32, warp_row = warp / 4 * 64, warp_column = warp % 4 * 32;
  float sum[kRows][kColumns][4] = {};
  for (int k0 = 0; k0 < k; k0 += kHgemmDepth) {
    hgemm_copy<HgemmCopy::swizzled, kVectors, kTile, kHgemmDepth>(a_tile, a, m, k, row0, k0);
    hgemm_copy<HgemmCopy::swizzled, kVectors, kHgemmDepth, kTile>(b_tile, b, k, n, k0, column0);
    __syncthreads();
#pragma unroll
    for (int step = 0; step < kHgemmDepth / 16; ++step) {
      HgemmFragments<kRows, kColumns> fragments;
      hgemm_load_fragments<kTile>(fragments, a_tile, b_tile, warp_row, warp_column, step);
      hgemm_multiply<T>(sum, fragments);
    }
    __syncthreads();
  }
  hgemm_store<kVectors>(c, m, n, row0 + warp_row, column0 + warp_column, sum);
}

}  // namespace tenfold::kernels
