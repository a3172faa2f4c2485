#pragma once
// The rungs of the transpose ladder. A request is one load or store of a warp; memory serves it in sectors of 32 bytes,
// so 32 floats side by side are 4 sectors, and 32 floats in 32 different rows are 32 sectors, of which 4 bytes each are
// used.
#include "kernels/launch.cuh"

namespace tenfold::kernels {

constexpr int kTile = 32;       // one warp wide: a row of a tile is 128 bytes
constexpr int kThreadRows = 8;  // a block of 32 x 8 threads covers a tile in 4 passes: four loads in flight per thread
constexpr int kWideTile = 64;   // of rung 4, whose blocks are 8 x 32 threads: 8 float4 are 128 bytes

/// The first row and column of the input that this block moves.
struct Corner {
  int64_t row, column;
};

/// Blocks are numbered along the rows of the input, tile by tile. In one dimension: gridDim.y ends at 65535.
template <int kRows, int kColumns>
static __device__ Corner corner_of_block(int64_t columns) {
  const auto across = static_cast<uint32_t>((columns + kColumns - 1) / kColumns);
  return {static_cast<int64_t>(blockIdx.x / across) * kRows, static_cast<int64_t>(blockIdx.x % across) * kColumns};
}

/// Rung 0: one thread moves one element, and a warp reads 32 neighbours of a row. A load is 4 sectors; but the 32
/// results lie in 32 rows of the output, so that a store is 32 sectors, eight times what it needs.
static __global__ void transpose_read_coalesced(float* __restrict__ out, const float* __restrict__ in, int64_t rows,
                                                int64_t columns) {
  const Corner corner = corner_of_block<kThreadRows, kTile>(columns);
  const int64_t row = corner.row + threadIdx.y, column = corner.column + threadIdx.x;
  if (row < rows && column < columns) out[column * rows + row] = in[row * columns + column];
}

/// Rung 1: x and y change places, so that a warp writes 32 neighbours. Now a store is 4 sectors and a load 32. Stores
/// are the better ones to have in order: a sector fetched for one warp can still be in the cache when the next warp
/// reads its neighbours.
static __global__ void transpose_write_coalesced(float* __restrict__ out, const float* __restrict__ in, int64_t rows,
                                                 int64_t columns) {
  const Corner corner = corner_of_block<kTile, kThreadRows>(columns);
  const int64_t row = corner.row + threadIdx.x, column = corner.column + threadIdx.y;
  if (row < rows && column < columns) out[column * rows + row] = in[row * columns + column];
}

/// Rung 2: a tile in shared memory turns the order around, so that a warp reads and writes 32 neighbours of global
/// memory: 4 sectors on both sides. The column of the tile that a warp reads has a pitch of 32 floats, so that all its
/// 32 words lie in one bank: that one read is served in 32 passes.
static __global__ void transpose_tiled(float* __restrict__ out, const float* __restrict__ in, int64_t rows,
                                       int64_t columns) {
  __shared__ float tile[kTile][kTile];
  const Corner corner = corner_of_block<kTile, kTile>(columns);
#pragma unroll
  for (unsigned pass = 0; pass < kTile; pass += kThreadRows) {
    const unsigned y = pass + threadIdx.y;
    const int64_t row = corner.row + y, column = corner.column + threadIdx.x;
    if (row < rows && column < columns) tile[y][threadIdx.x] = in[row * columns + column];
  }
  __syncthreads();
#pragma unroll
  for (unsigned pass = 0; pass < kTile; pass += kThreadRows) {
    const unsigned y = pass + threadIdx.y;
    const int64_t row = corner.row + threadIdx.x, column = corner.column + y;
    if (row < rows && column < columns) out[column * rows + row] = tile[threadIdx.x][y];
  }
}

/// Rung 3: one float of padding per row of the tile. With a pitch of 33 the words of a column lie in 32 different
/// banks: every access to shared memory is one pass.
static __global__ void transpose_padded(float* __restrict__ out, const float* __restrict__ in, int64_t rows,
                                        int64_t columns) {
  __shared__ float tile[kTile][kTile + 1];
  const Corner corner = corner_of_block<kTile, kTile>(columns);
#pragma unroll
  for (unsigned pass = 0; pass < kTile; pass += kThreadRows) {
    const unsigned y = pass + threadIdx.y;
    const int64_t row = corner.row + y, column = corner.column + threadIdx.x;
    if (row < rows && column < columns) tile[y][threadIdx.x] = in[row * columns + column];
  }
  __syncthreads();
#pragma unroll
  for (unsigned pass = 0; pass < kTile; pass += kThreadRows) {
    const unsigned y = pass + threadIdx.y;
    const int64_t row = corner.row + threadIdx.x, column = corner.column + y;
    if (row < rows && column < columns) out[column * rows + row] = tile[threadIdx.x][y];
  }
}

/// Whether each row of `row_length` floats begins at a multiple of 16 bytes, as a float4 must.
static __device__ bool rows_are_aligned(const float* matrix, int64_t row_length) {
  return reinterpret_cast<uintptr_t>(matrix) % sizeof(float4) == 0 && row_length % 4 == 0;
}

/// Rung 4: a thread moves float4 values, four of them per side, of a tile of 64 x 64. The sectors are the same, but a
/// request asks for 16 of them: a quarter of the instructions, and 64 bytes in flight per thread instead of 16. A warp
/// takes 8 float4 of 4 rows, not 16 of 2: with the pitch of 65 its words k of 4 then lie in the 32 banks (row + 4 * x +
/// k) % 32, all different. A side with unaligned rows goes in single floats, as in rung 3.
static __global__ void transpose_vectorised(float* __restrict__ out, const float* __restrict__ in, int64_t rows,
                                            int64_t columns) {
  __shared__ float tile[kWideTile][kWideTile + 1];
  constexpr unsigned kHalf = kWideTile / 2, kThreads = kHalf * kThreadRows;
  const Corner corner = corner_of_block<kWideTile, kWideTile>(columns);
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;

  if (rows_are_aligned(in, columns)) {
#pragma unroll
    for (unsigned quarter = 0; quarter < 4; ++quarter) {
      const unsigned y = quarter / 2 * kHalf + threadIdx.y, x = quarter % 2 * kHalf + 4 * threadIdx.x;
      const int64_t row = corner.row + y, column = corner.column + x;
      if (row < rows && column < columns) {  // and so are the three after it: columns is a multiple of 4
        const float4 values = *reinterpret_cast<const float4*>(&in[row * columns + column]);
        tile[y][x] = values.x;
        tile[y][x + 1] = values.y;
        tile[y][x + 2] = values.z;
        tile[y][x + 3] = values.w;
      }
    }
  } else {
#pragma unroll 4
    for (unsigned pass = 0; pass < kWideTile * kWideTile; pass += kThreads) {
      const unsigned y = (pass + thread) / kWideTile, x = (pass + thread) % kWideTile;
      const int64_t row = corner.row + y, column = corner.column + x;
      if (row < rows && column < columns) tile[y][x] = in[row * columns + column];
    }
  }
  __syncthreads();
  if (rows_are_aligned(out, rows)) {
#pragma unroll
    for (unsigned quarter = 0; quarter < 4; ++quarter) {
      const unsigned y = quarter / 2 * kHalf + threadIdx.y, x = quarter % 2 * kHalf + 4 * threadIdx.x;
      const int64_t row = corner.row + x, column = corner.column + y;
      if (row < rows && column < columns) {
        const float4 values{tile[x][y], tile[x + 1][y], tile[x + 2][y], tile[x + 3][y]};
        reinterpret_cast<float4*>(out)[(column * rows + row) / 4] = values;
      }
    }
  } else {
#pragma unroll 4
    for (unsigned pass = 0; pass < kWideTile * kWideTile; pass += kThreads) {
      const unsigned y = (pass + thread) / kWideTile, x = (pass + thread) % kWideTile;
      const int64_t row = corner.row + x, column = corner.column + y;
      if (row < rows && column < columns) out[column * rows + row] = tile[x][y];
    }
  }
}

}  // namespace tenfold::kernels
