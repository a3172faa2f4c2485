#pragma once
// The SGEMM ladder: C (m, n) = alpha * A (m, k) * B (k, n) + beta * C. sgemm.h says what each rung is called.
//
// In every rung a block computes one tile of C. The grid is one-dimensional and walks the tiles row by row, because
// gridDim.y ends at 65,535. Where a tile reaches over the edge of a matrix, loads give 0 and nothing is stored.
//
// Loads are counted as the source writes them, and as the microscope counts them. Where nvcc unrolls the loop over a
// tile's depth, in rungs 2 and 3, it merges four shared reads of A into one of 16 bytes.

#include "kernels/launch.cuh"

#include <cstdint>

namespace tenfold::kernels {

/// Where an element lies: sizes fit in an int, their products do not.
__device__ inline int64_t sgemm_offset(int row, int columns, int column) {
  return static_cast<int64_t>(row) * columns + column;
}

/// Four neighbours as one 16-byte word; `first` must be 16-byte aligned.
__device__ inline float4& sgemm_float4(float& first) { return reinterpret_cast<float4&>(first); }
__device__ inline const float4& sgemm_float4(const float& first) { return reinterpret_cast<const float4&>(first); }

/// Four neighbours of one row, 0 beyond the edges. One load with kVectors, which needs `columns` divisible by 4 and an
/// aligned matrix: the four then lie all inside or all outside.
template <bool kVectors>
__device__ inline float4 sgemm_load4(const float* matrix, int rows, int columns, int row, int column) {
  float4 four = {0, 0, 0, 0};
  if (row >= rows) return four;
  const float* from = matrix + sgemm_offset(row, columns, column);
  if constexpr (kVectors) {
    if (column < columns) four = sgemm_float4(*from);
  } else {
    if (column + 0 < columns) four.x = from[0];
    if (column + 1 < columns) four.y = from[1];
    if (column + 2 < columns) four.z = from[2];
    if (column + 3 < columns) four.w = from[3];
  }
  return four;
}

/// Writes one element of C; reads the old one only where beta asks for it.
__device__ inline void sgemm_store(float* c, float sum, float alpha, float beta) {
  const float old = beta == 0 ? 0 : *c;
  *c = alpha * sum + beta * old;
}

/// sgemm_store for four neighbours of one row, inside C only.
template <bool kVectors>
__device__ inline void sgemm_store4(float* c, int m, int n, int row, int column, float4 sum, float alpha, float beta) {
  if (row >= m) return;
  float* to = c + sgemm_offset(row, n, column);
  if constexpr (kVectors) {
    if (column >= n) return;
    float4 old = {0, 0, 0, 0};
    if (beta != 0) old = sgemm_float4(*to);
    const float4 result = {alpha * sum.x + beta * old.x, alpha * sum.y + beta * old.y, alpha * sum.z + beta * old.z,
                           alpha * sum.w + beta * old.w};
    sgemm_float4(*to) = result;
  } else {
    if (column + 0 < n) sgemm_store(to + 0, sum.x, alpha, beta);
    if (column + 1 < n) sgemm_store(to + 1, sum.y, alpha, beta);
    if (column + 2 < n) sgemm_store(to + 2, sum.z, alpha, beta);
    if (column + 3 < n) sgemm_store(to + 3, sum.w, alpha, beta);
  }
}

// Rung 0: one thread, one element of C; threadIdx.x walks down the rows. The 32 lanes of a warp then stand in 32 rows:
// a load from A and the store to C touch 32 sectors each and use 4 of every 32 bytes that move. B is the same word for
// all.
static __global__ void sgemm_naive(float* c, const float* a, const float* b, int m, int n, int k, float alpha,
                                   float beta) {
  constexpr int kTile = 32;
  const int column_tiles = (n + kTile - 1) / kTile;
  const int row = blockIdx.x / column_tiles * kTile + threadIdx.x;
  const int column = blockIdx.x % column_tiles * kTile + threadIdx.y;
  if (row >= m || column >= n) return;
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += a[sgemm_offset(row, k, i)] * b[sgemm_offset(i, n, column)];
  sgemm_store(c + sgemm_offset(row, n, column), sum, alpha, beta);
}

// Rung 1: threadIdx.x walks along the columns, the only change. The lanes of a warp share a row of A (one sector, one
// word for all) and read 32 neighbours of B (4 sectors, every byte used); the store to C is coalesced the same way.
static __global__ void sgemm_coalesced(float* c, const float* a, const float* b, int m, int n, int k, float alpha,
                                       float beta) {
  constexpr int kTile = 32;
  const int column_tiles = (n + kTile - 1) / kTile;
  const int row = blockIdx.x / column_tiles * kTile + threadIdx.y;
  const int column = blockIdx.x % column_tiles * kTile + threadIdx.x;
  if (row >= m || column >= n) return;
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += a[sgemm_offset(row, k, i)] * b[sgemm_offset(i, n, column)];
  sgemm_store(c + sgemm_offset(row, n, column), sum, alpha, beta);
}

// Rung 2: the block first copies a 32 x 32 tile of A and of B to shared memory, then multiplies from there: each value
// moves from global memory once for 32 uses. Both shared reads are free of conflicts (A: one word for all lanes, B: 32
// neighbours). What remains: two shared loads for each multiply-add.
static __global__ void sgemm_shared(float* c, const float* a, const float* b, int m, int n, int k, float alpha,
                                    float beta) {
  constexpr int kTile = 32;
  __shared__ float a_tile[kTile][kTile];  // (row, depth)
  __shared__ float b_tile[kTile][kTile];  // (depth, column)
  const int column_tiles = (n + kTile - 1) / kTile;
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.x / column_tiles * kTile + y;
  const int column = blockIdx.x % column_tiles * kTile + x;
  float sum = 0;
  for (int k0 = 0; k0 < k; k0 += kTile) {
    a_tile[y][x] = row < m && k0 + x < k ? a[sgemm_offset(row, k, k0 + x)] : 0;
    b_tile[y][x] = k0 + y < k && column < n ? b[sgemm_offset(k0 + y, n, column)] : 0;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += a_tile[y][i] * b_tile[i][x];
    __syncthreads();  // nobody overwrites a tile that another still reads
  }
  if (row < m && column < n) sgemm_store(c + sgemm_offset(row, n, column), sum, alpha, beta);
}

// Rung 3: a thread computes 8 results below each other. One value of B, held in a register, serves all 8: nine shared
// loads for eight multiply-adds instead of sixteen. The 512 threads make a 64 x 64 tile of C, so each value moves from
// global memory once for 64 uses; a tile is only 8 deep, one element of A and of B for each thread. No conflicts: a
// warp lies in one row of threads (A: one word for all) and reads 32 neighbours of B.
static __global__ void sgemm_registers_1d(float* c, const float* a, const float* b, int m, int n, int k, float alpha,
                                          float beta) {
  constexpr int kTile = 64, kDepth = 8, kResults = 8;
  __shared__ float a_tile[kTile][kDepth];  // (row, depth)
  __shared__ float b_tile[kDepth][kTile];  // (depth, column)
  const int column_tiles = (n + kTile - 1) / kTile;
  const int row0 = blockIdx.x / column_tiles * kTile, column0 = blockIdx.x % column_tiles * kTile;
  const int thread = threadIdx.x;
  const int thread_row = thread / kTile * kResults, thread_column = thread % kTile;  // of its results
  const int a_row = thread / kDepth, a_column = thread % kDepth;                     // of what it copies
  const int b_row = thread / kTile, b_column = thread % kTile;
  float sum[kResults] = {};
  for (int k0 = 0; k0 < k; k0 += kDepth) {
    a_tile[a_row][a_column] =
        row0 + a_row < m && k0 + a_column < k ? a[sgemm_offset(row0 + a_row, k, k0 + a_column)] : 0;
    b_tile[b_row][b_column] =
        k0 + b_row < k && column0 + b_column < n ? b[sgemm_offset(k0 + b_row, n, column0 + b_column)] : 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      const float from_b = b_tile[i][thread_column];
#pragma unroll
      for (int r = 0; r < kResults; ++r) sum[r] += a_tile[thread_row + r][i] * from_b;
    }
    __syncthreads();
  }
  const int column = column0 + thread_column;
#pragma unroll
  for (int r = 0; r < kResults; ++r) {
    const int row = row0 + thread_row + r;
    if (row < m && column < n) sgemm_store(c + sgemm_offset(row, n, column), sum[r], alpha, beta);
  }
}

// Rung 4: 8 x 8 results for each thread, an outer product of 8 values of A and 8 of B: 16 shared loads for 64
// multiply-adds. 256 threads make a 128 x 128 tile of C: each value moves from global memory once for 128 uses. A
// thread's rows and columns lie 16 apart, so that the lanes of a warp read 16 neighbours of B; 8 columns next to each
// other would put the lanes 8 words apart, a 4-way conflict. What remains: every load, global and shared, brings 4
// bytes only.
static __global__ void __launch_bounds__(256, 2)
    sgemm_registers_2d(float* c, const float* a, const float* b, int m, int n, int k, float alpha, float beta) {
  constexpr int kTile = 128, kDepth = 8, kResults = 8, kApart = 16, kThreads = 256;
  __shared__ float a_tile[kTile][kDepth];  // (row, depth)
  __shared__ float b_tile[kDepth][kTile];  // (depth, column)
  const int column_tiles = (n + kTile - 1) / kTile;
  const int row0 = blockIdx.x / column_tiles * kTile, column0 = blockIdx.x % column_tiles * kTile;
  const int thread = threadIdx.x;
  const int thread_row = thread / kApart, thread_column = thread % kApart;
  const int a_row = thread / kDepth, a_column = thread % kDepth;
  const int b_row = thread / kTile, b_column = thread % kTile;
  float sum[kResults][kResults] = {};
  for (int k0 = 0; k0 < k; k0 += kDepth) {
#pragma unroll
    for (int r = a_row; r < kTile + a_row; r += kThreads / kDepth)
      a_tile[r][a_column] = row0 + r < m && k0 + a_column < k ? a[sgemm_offset(row0 + r, k, k0 + a_column)] : 0;
#pragma unroll
    for (int r = b_row; r < kDepth + b_row; r += kThreads / kTile)
      b_tile[r][b_column] = k0 + r < k && column0 + b_column < n ? b[sgemm_offset(k0 + r, n, column0 + b_column)] : 0;
    __syncthreads();
#pragma unroll 1  // more would take more registers than two blocks on a multiprocessor leave
    for (int i = 0; i < kDepth; ++i) {
      float from_a[kResults], from_b[kResults];
#pragma unroll
      for (int r = 0; r < kResults; ++r) from_a[r] = a_tile[thread_row + kApart * r][i];
#pragma unroll
      for (int r = 0; r < kResults; ++r) from_b[r] = b_tile[i][thread_column + kApart * r];
#pragma unroll
      for (int r = 0; r < kResults; ++r) {
#pragma unroll
        for (int s = 0; s < kResults; ++s) sum[r][s] += from_a[r] * from_b[s];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kResults; ++r) {
    const int row = row0 + thread_row + kApart * r;
    if (row >= m) continue;
#pragma unroll
    for (int s = 0; s < kResults; ++s) {
      const int column = column0 + thread_column + kApart * s;
      if (column < n) sgemm_store(c + sgemm_offset(row, n, column), sum[r][s], alpha, beta);
    }
  }
}

// Rung 5: 16 bytes for each load and store. The tile of A is transposed on its way to shared memory, since a thread
// needs neighbours down a column of A: 4 shared loads for 64 multiply-adds. A thread's results are 2 x 2 squares of 4 x
// 4, 64 apart, so that 8 lanes read 8 neighbouring float4 of B. Rows of the transposed tile are 4 words longer than the
// tile: a warp stores 16 rows from 2 groups of columns, which would meet in the same 16 banks otherwise. The same bytes
// move as in rung 4, with a quarter of the requests.
template <bool kVectors>
static __global__ void __launch_bounds__(256, 2)
    sgemm_vector(float* c, const float* a, const float* b, int m, int n, int k, float alpha, float beta) {
  constexpr int kTile = 128, kDepth = 8, kResults = 8, kHalf = 64;
  alignas(16) __shared__ float a_tile[kDepth][kTile + 4];  // (depth, row)
  alignas(16) __shared__ float b_tile[kDepth][kTile];      // (depth, column)
  const int column_tiles = (n + kTile - 1) / kTile;
  const int row0 = blockIdx.x / column_tiles * kTile, column0 = blockIdx.x % column_tiles * kTile;
  const int thread = threadIdx.x;
  const int thread_row = thread / 16 * 4, thread_column = thread % 16 * 4;
  const int a_row = thread / 2, a_column = thread % 2 * 4;
  const int b_row = thread / 32, b_column = thread % 32 * 4;
  float sum[kResults][kResults] = {};
  for (int k0 = 0; k0 < k; k0 += kDepth) {
    const float4 copy_a = sgemm_load4<kVectors>(a, m, k, row0 + a_row, k0 + a_column);
    const float4 copy_b = sgemm_load4<kVectors>(b, k, n, k0 + b_row, column0 + b_column);
    a_tile[a_column + 0][a_row] = copy_a.x;
    a_tile[a_column + 1][a_row] = copy_a.y;
    a_tile[a_column + 2][a_row] = copy_a.z;
    a_tile[a_column + 3][a_row] = copy_a.w;
    sgemm_float4(b_tile[b_row][b_column]) = copy_b;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      const float4 a0 = sgemm_float4(a_tile[i][thread_row]), a1 = sgemm_float4(a_tile[i][thread_row + kHalf]);
      const float4 b0 = sgemm_float4(b_tile[i][thread_column]), b1 = sgemm_float4(b_tile[i][thread_column + kHalf]);
      const float from_a[kResults] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
      const float from_b[kResults] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
#pragma unroll
      for (int r = 0; r < kResults; ++r) {
#pragma unroll
        for (int s = 0; s < kResults; ++s) sum[r][s] += from_a[r] * from_b[s];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kResults; ++r) {
    const int row = row0 + thread_row + r / 4 * kHalf + r % 4;
#pragma unroll
    for (int s = 0; s < kResults; s += 4) {
      const float4 four = {sum[r][s], sum[r][s + 1], sum[r][s + 2], sum[r][s + 3]};
      sgemm_store4<kVectors>(c, m, n, row, column0 + thread_column + s / 4 * kHalf, four, alpha, beta);
    }
  }
}

// Rung 6: two tiles of A and of B in shared memory. While the block multiplies from one, the next step's loads from
// global memory are on their way to registers, so their latency hides behind 512 multiply-adds. One barrier for each
// step instead of two: who stores into a tile has passed the barrier behind which nobody reads it any more. Nothing
// else moves less.
template <bool kVectors>
static __global__ void __launch_bounds__(256, 2)
    sgemm_double_buffer(float* c, const float* a, const float* b, int m, int n, int k, float alpha, float beta) {
  constexpr int kTile = 128, kDepth = 8, kResults = 8, kHalf = 64;
  alignas(16) __shared__ float a_tile[2][kDepth][kTile + 4];  // (buffer, depth, row)
  alignas(16) __shared__ float b_tile[2][kDepth][kTile];      // (buffer, depth, column)
  const int column_tiles = (n + kTile - 1) / kTile;
  const int row0 = blockIdx.x / column_tiles * kTile, column0 = blockIdx.x % column_tiles * kTile;
  const int thread = threadIdx.x;
  const int thread_row = thread / 16 * 4, thread_column = thread % 16 * 4;
  const int a_row = thread / 2, a_column = thread % 2 * 4;
  const int b_row = thread / 32, b_column = thread % 32 * 4;
  float sum[kResults][kResults] = {};
  float4 copy_a = sgemm_load4<kVectors>(a, m, k, row0 + a_row, a_column);
  float4 copy_b = sgemm_load4<kVectors>(b, k, n, b_row, column0 + b_column);
  int now = 0;
  for (int k0 = 0; k0 < k; k0 += kDepth) {
    a_tile[now][a_column + 0][a_row] = copy_a.x;
    a_tile[now][a_column + 1][a_row] = copy_a.y;
    a_tile[now][a_column + 2][a_row] = copy_a.z;
    a_tile[now][a_column + 3][a_row] = copy_a.w;
    sgemm_float4(b_tile[now][b_row][b_column]) = copy_b;
    __syncthreads();
    copy_a = sgemm_load4<kVectors>(a, m, k, row0 + a_row, k0 + kDepth + a_column);  // used in the next step
    copy_b = sgemm_load4<kVectors>(b, k, n, k0 + kDepth + b_row, column0 + b_column);
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      const float4 a0 = sgemm_float4(a_tile[now][i][thread_row]), a1 = sgemm_float4(a_tile[now][i][thread_row + kHalf]);
      const float4 b0 = sgemm_float4(b_tile[now][i][thread_column]),
                   b1 = sgemm_float4(b_tile[now][i][thread_column + kHalf]);
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
    const int row = row0 + thread_row + r / 4 * kHalf + r % 4;
#pragma unroll
    for (int s = 0; s < kResults; s += 4) {
      const float4 four = {sum[r][s], sum[r][s + 1], sum[r][s + 2], sum[r][s + 3]};
      sgemm_store4<kVectors>(c, m, n, row, column0 + thread_column + s / 4 * kHalf, four, alpha, beta);
    }
  }
}

// Rung 7: between the block's tile and the thread's lies the warp's: 64 x 32 results, its lanes 8 high and 4 wide. For
// one step in depth a warp reads 64 words of A and 32 of B; the 2 x 16 lanes of the rungs before read 16 and 128 for as
// many results. What a GPU saves when lanes share a 16-byte word NVIDIA has said in its forum only: the microscope
// counts four passes for each such request, the same in both rungs. The tiles are 16 deep, so half as many barriers.
// What remains to cuBLAS is tuning (tile sizes for each shape and GPU, splitting k for small C) and, from Volta on,
// tensor cores.
template <bool kVectors>
static __global__ void __launch_bounds__(256, 2)
    sgemm_warp_tile(float* c, const float* a, const float* b, int m, int n, int k, float alpha, float beta) {
  constexpr int kTile = 128, kDepth = 16, kResults = 8;
  constexpr int kWarpRows = 64, kWarpColumns = 32;
  constexpr int kLaneRows = 32, kLaneColumns = 16;            // from one 4 x 4 square of a thread's results to the next
  alignas(16) __shared__ float a_tile[2][kDepth][kTile + 4];  // (buffer, depth, row)
  alignas(16) __shared__ float b_tile[2][kDepth][kTile];      // (buffer, depth, column)
  const int column_tiles = (n + kTile - 1) / kTile;
  const int row0 = blockIdx.x / column_tiles * kTile, column0 = blockIdx.x % column_tiles * kTile;
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int thread_row = warp / 4 * kWarpRows + lane / 4 * 4, thread_column = warp % 4 * kWarpColumns + lane % 4 * 4;
  const int a_row = thread / 2, a_column = thread % 2 * 4;  // and 8 columns on
  const int b_row = thread / 32, b_column = lane * 4;       // and 8 rows on
  float sum[kResults][kResults] = {};
  float4 copy_a[2], copy_b[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    copy_a[half] = sgemm_load4<kVectors>(a, m, k, row0 + a_row, a_column + 8 * half);
    copy_b[half] = sgemm_load4<kVectors>(b, k, n, b_row + 8 * half, column0 + b_column);
  }
  int now = 0;
  for (int k0 = 0; k0 < k; k0 += kDepth) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      a_tile[now][a_column + 8 * half + 0][a_row] = copy_a[half].x;
      a_tile[now][a_column + 8 * half + 1][a_row] = copy_a[half].y;
      a_tile[now][a_column + 8 * half + 2][a_row] = copy_a[half].z;
      a_tile[now][a_column + 8 * half + 3][a_row] = copy_a[half].w;
      sgemm_float4(b_tile[now][b_row + 8 * half][b_column]) = copy_b[half];
    }
    __syncthreads();
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // used in the next step
      copy_a[half] = sgemm_load4<kVectors>(a, m, k, row0 + a_row, k0 + kDepth + a_column + 8 * half);
      copy_b[half] = sgemm_load4<kVectors>(b, k, n, k0 + kDepth + b_row + 8 * half, column0 + b_column);
    }
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      const float4 a0 = sgemm_float4(a_tile[now][i][thread_row]),
                   a1 = sgemm_float4(a_tile[now][i][thread_row + kLaneRows]);
      const float4 b0 = sgemm_float4(b_tile[now][i][thread_column]),
                   b1 = sgemm_float4(b_tile[now][i][thread_column + kLaneColumns]);
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
#pragma unroll
    for (int s = 0; s < kResults; s += 4) {
      const float4 four = {sum[r][s], sum[r][s + 1], sum[r][s + 2], sum[r][s + 3]};
      sgemm_store4<kVectors>(c, m, n, row, column0 + thread_column + s / 4 * kLaneColumns, four, alpha, beta);
    }
  }
}

}  // namespace tenfold::kernels
