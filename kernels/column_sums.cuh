#pragma once
// Sums over the rows of a matrix without atomics, so that their order, and with it every bit, is always the same. Stage
// one: a grid of (column tiles, parts of the rows), each block adding its part's rows, writes (parts, columns) sums.
// Stage two adds the parts.

#include "rows.cuh"

namespace tenfold::kernels {

/// Blocks of both stages: 32 threads across the columns, each with N of them, and 8 down the rows.
inline constexpr unsigned kTileColumns = 32, kTileRows = 8;

/// Adds what the 8 threads of each column of threads have in `sums`, and writes the 32 * N totals to `to`, as far as
/// there are columns left. Every thread of the block must come here.
template <int N, class T>
__device__ inline void store_column_sums(T* to, const float (&sums)[N], int64_t columns_left) {
  // Thread x has the columns x * N to x * N + N - 1; value i of it lies at i * kStride + x. Lanes write neighbours, and
  // read value t % N of thread t / N: both without a bank conflict thanks to the padding of 32 / N.
  constexpr int kStride = kTileColumns + kTileColumns / N;
  static_assert(N * kTileColumns <= kTileColumns * kTileRows, "a thread writes one total at most");
  __shared__ float tile[kTileRows][N * kStride];
  __syncthreads();  // somebody may still read an earlier call's values
#pragma unroll
  for (int i = 0; i < N; ++i) tile[threadIdx.y][i * kStride + threadIdx.x] = sums[i];
  __syncthreads();
  const int column = static_cast<int>(threadIdx.y * kTileColumns + threadIdx.x);
  if (column < N * static_cast<int>(kTileColumns) && column < columns_left) {
    float total = 0;
#pragma unroll
    for (unsigned y = 0; y < kTileRows; ++y) total += tile[y][column % N * kStride + column / N];
    to[column] = from_float<T>(total);
  }
}

/// Stage two: out (columns) from partial (parts, columns).
template <class T>
static __global__ void add_parts(T* __restrict__ out, const float* __restrict__ partial, int64_t parts,
                                 int64_t columns) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTileColumns, column = first + threadIdx.x;
  float sum[1] = {0};
  if (column < columns) {
    for (int64_t part = threadIdx.y; part < parts; part += kTileRows) sum[0] += partial[part * columns + column];
  }
  store_column_sums(out + first, sum, columns - first);
}

}  // namespace tenfold::kernels
