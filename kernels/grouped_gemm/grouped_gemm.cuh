#pragma once
// The ladder of products of a mixture of experts. grouped_gemm.h says what each rung is called.

#include "grouped_gemm_tile.cuh"

namespace tenfold::kernels {

/// One row of `width` values, by a warp.
template <bool kVectors, class T>
__device__ inline void grouped_copy_row(T* to, const T* from, int width) {
  constexpr int kValues = kVectors ? kPacket<T> : 1;
  for (int i = threadIdx.x % 32; i < width / kValues; i += 32)
    packets_of<kValues>(to)[i] = packets_of<kValues>(from)[i];
}

/// Zeros in its place.
template <bool kVectors, class T>
__device__ inline void grouped_clear_row(T* to, int width) {
  constexpr int kValues = kVectors ? kPacket<T> : 1;
  for (int i = threadIdx.x % 32; i < width / kValues; i += 32) packets_of<kValues>(to)[i] = {};
}

/// The row that a warp copies.
__device__ inline int64_t grouped_row_of_warp() {
  return int64_t{blockIdx.x} * (kGroupedThreads / 32) + threadIdx.x / 32;
}

/// Before rung 0's product: a buffer of `capacity` rows for each expert, its own rows first and zeros after them.
template <class T, bool kVectors>
static __global__ void grouped_pad(T* padded, GroupedInput<T> in, int capacity) {
  const int64_t row = grouped_row_of_warp();
  if (row >= static_cast<int64_t>(in.experts) * capacity) return;
  const int expert = static_cast<int>(row / capacity), place = static_cast<int>(row % capacity);
  const int at = in.offsets[expert] + place;
  T* const to = padded + row * in.depth;
  if (at >= in.offsets[expert + 1]) return grouped_clear_row<kVectors>(to, in.depth);
  grouped_copy_row<kVectors>(to, in.x + hgemm_offset(in.source_of(at), in.depth, 0), in.depth);
}

/// After it: each buffer's first rows, back into one matrix.
template <class T, bool kVectors>
static __global__ void grouped_unpad(T* out, const T* padded, const int* offsets, int experts, int columns,
                                     int capacity) {
  const int64_t row = grouped_row_of_warp();
  if (row >= static_cast<int64_t>(experts) * capacity) return;
  const int expert = static_cast<int>(row / capacity), at = offsets[expert] + static_cast<int>(row % capacity);
  if (at >= offsets[expert + 1]) return;
  grouped_copy_row<kVectors>(out + hgemm_offset(at, columns, 0), padded + row * columns, columns);
}

/// Before the products of rungs 1 to 3: the rows in their order. Every value is read, written, and read again.
template <class T, bool kVectors>
static __global__ void grouped_permute(T* rows, GroupedInput<T> in) {
  const int64_t row = grouped_row_of_warp();
  if (row >= in.offsets[in.experts]) return;
  grouped_copy_row<kVectors>(rows + row * in.depth, in.x + hgemm_offset(in.row_of[row], in.depth, 0), in.depth);
}

/// A tile whose rows lie side by side.
template <bool kVectors, class T>
__device__ inline void grouped_product(T* out, const GroupedInput<T>& in, const GroupedTile& tile) {
  const RowsInPlace<kVectors, T> rows{in.x, tile.row, tile.row_end, in.depth};
  GroupedSums sum;
  grouped_multiply<kVectors>(sum, rows, in.weight(tile.expert), in.depth, in.columns, tile.column, true);
  hgemm_store<kVectors>(out, tile.row_end, in.columns, tile.row + grouped_warp_row(),
                        tile.column + grouped_warp_column(), sum);
}

/// Rung 0: padded. A batched product: all experts have as many rows as the largest, and each has the same grid of
/// tiles. A buffer of zeros is loaded, multiplied and stored like any other. The host must know the largest.
/// Rung 1: launches. The same kernel for one expert at a time and its own rows, so that only the end of its last tile
/// is wasted. But a launch begins when the one before has ended: a wave of blocks for each expert, however few it has.
template <class T, bool kVectors>
static __global__ void __launch_bounds__(kGroupedThreads, kVectors ? 2 : 1)
    grouped_batch(T* out, const T* x, const T* weights, int rows, int depth, int columns) {
  const int column_tiles = static_cast<int>(grouped_tiles(columns)),
            tiles = static_cast<int>(grouped_tiles(rows)) * column_tiles, block = static_cast<int>(blockIdx.x);
  const int64_t expert = block / tiles;
  const GroupedInput<T> in{x + expert * rows * depth, weights, nullptr, nullptr, 0, depth, columns};
  const GroupedTile tile = grouped_tile(static_cast<int>(expert), 0, rows, column_tiles, block % tiles);
  grouped_product<kVectors>(out + expert * rows * columns, in, tile);
}

/// Rung 2: one grid. All experts' tiles are one list, and block b computes tile b. Where experts begin in the list is
/// not known to the host: each warp sums up the tiles of 32 experts at a time until it is there. The grid has as many
/// blocks as any routing can need, and those behind the list's end return.
template <class T, bool kVectors>
static __global__ void __launch_bounds__(kGroupedThreads, kVectors ? 2 : 1)
    grouped_one_grid(T* out, GroupedInput<T> in) {
  GroupedSearch search(in);
  GroupedTile tile;
  if (search.find(static_cast<int>(blockIdx.x), tile)) grouped_product<kVectors>(out, in, tile);
}

/// Rung 3: persistent. As many blocks as the GPU runs at a time, and each walks over the list in steps of their number:
/// the search goes on from where it stands, and no block starts only to return. Blocks that run together are neighbours
/// in the list, so that they share rows and an expert's weight in L2.
template <class T, bool kVectors>
static __global__ void __launch_bounds__(kGroupedThreads, kVectors ? 2 : 1)
    grouped_persistent(T* out, GroupedInput<T> in) {
  GroupedSearch search(in);
  GroupedTile tile;
  for (auto at = static_cast<int>(blockIdx.x); search.find(at, tile); at += static_cast<int>(gridDim.x)) {
    grouped_product<kVectors>(out, in, tile);
    __syncthreads();  // nobody copies the next tile over stages that another still reads
  }
}

/// Rung 4: gathered. No copy of the rows before: a thread looks up the two rows that it copies of each tile, and
/// cp.async reads them where they lie. A row is 64 bytes in each iteration, two whole sectors, so that rows which lie
/// anywhere move no more sectors than neighbours.
/// Rung 5: tails (kTails). The last tile of an expert is computed only where it has rows: a warp whose 64 rows all lie
/// behind the end copies for the others, and leaves the tensor cores to them.
template <class T, bool kVectors, bool kTails>
static __global__ void __launch_bounds__(kGroupedThreads, kVectors ? 2 : 1)
    grouped_gathered(T* out, GroupedInput<T> in) {
  GroupedSearch search(in);
  GroupedTile tile;
  for (auto at = static_cast<int>(blockIdx.x); search.find(at, tile); at += static_cast<int>(gridDim.x)) {
    const RowsGathered<kVectors, T> rows(in, tile);
    const bool multiplies = !kTails || tile.row + grouped_warp_row() < tile.row_end;
    GroupedSums sum;
    grouped_multiply<kVectors>(sum, rows, in.weight(tile.expert), in.depth, in.columns, tile.column, multiplies);
    hgemm_store<kVectors>(out, tile.row_end, in.columns, tile.row + grouped_warp_row(),
                          tile.column + grouped_warp_column(), sum);
    __syncthreads();
  }
}

}  // namespace tenfold::kernels
