#pragma once
// What the rungs of grouped_gemm.cuh share: the product of one tile, and the search for a tile's expert. The tile is
// that of hgemm's rung 3.

#include "grouped_gemm.h"
#include "grouped_gemm_schedule.h"
#include "kernels/hgemm/hgemm_tile.cuh"

namespace tenfold::kernels {

/// Threads of a block; stages of the copies that run ahead; fragments of a warp's 64 x 32 sums.
inline constexpr int kGroupedThreads = 256, kGroupedStages = 4, kGroupedRows = 4, kGroupedColumns = 4;
inline constexpr int kGroupedStage = hgemm_stage(kGroupedTile, kGroupedTile);

template <class T>
struct GroupedInput {
  const T *x, *weights;
  const int *row_of, *offsets;
  int experts, depth, columns;
  __device__ const T* weight(int expert) const { return weights + static_cast<int64_t>(expert) * depth * columns; }
  /// Where in x a row is.
  __device__ int source_of(int row) const { return row_of == nullptr ? row : row_of[row]; }
};

/// Rows of a tile that lie side by side. Those behind the expert's last are 0: they are another expert's.
template <bool kVectors, class T>
struct RowsInPlace {
  const T* x;
  int row, row_end, depth;
  __device__ void copy(T* tile, int step) const {
    hgemm_copy<HgemmCopy::async, kVectors, kGroupedTile, kGroupedDepth>(tile, x, row_end, depth, row,
                                                                        step * kGroupedDepth);
  }
};

/// Rows of a tile that lie anywhere: where each of the two rows is that this thread copies a packet of in every
/// iteration. Looked up once for a tile.
template <bool kVectors, class T>
struct RowsGathered {
  static constexpr int kPackets = kGroupedDepth / 8, kApart = kGroupedThreads / kPackets, kOwn = kGroupedTile / kApart;
  const T* x;
  int source[kOwn], depth;

  __device__ RowsGathered(const GroupedInput<T>& in, const GroupedTile& tile) : x(in.x), depth(in.depth) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int row = tile.row + static_cast<int>(threadIdx.x) / kPackets + i * kApart;
      source[i] = -1;
      if (row < tile.row_end) source[i] = in.source_of(row);
    }
  }
  __device__ void copy(T* tile, int step) const {
    const int packet = threadIdx.x % kPackets, column = step * kGroupedDepth + packet * 8;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int place = hgemm_place<true, kGroupedDepth>(threadIdx.x / kPackets + i * kApart, packet);
      const T* const from = x + hgemm_offset(source[i], depth, column);
      const bool row_inside = source[i] >= 0;
      if constexpr (kVectors) {
        const bool inside = row_inside && column < depth;
        cp_async<16>(tile + place, inside ? from : x, inside ? 16 : 0);
      } else {
        HgemmPacket<T> eight = {};
        for (int j = 0; j < 8; ++j) {
          if (row_inside && column + j < depth) eight.values[j] = from[j];
        }
        packets_of<8>(tile)[place / 8] = eight;
      }
    }
  }
};

/// A thread's 64 sums of a tile, as mma leaves them.
using GroupedSums = float[kGroupedRows][kGroupedColumns][4];

/// A thread's warp within the tile.
__device__ inline int grouped_warp_row() { return static_cast<int>(threadIdx.x) / 128 * 64; }
__device__ inline int grouped_warp_column() { return static_cast<int>(threadIdx.x) / 32 % 4 * 32; }

/// The product of a tile's rows with the tile of a weight (depth, columns) from `column` on. Copies run three
/// iterations ahead by cp.async, with one barrier an iteration, and start again with each tile: before the next one all
/// threads must have left this one. A warp that does not multiply still copies.
template <bool kVectors, class T, class Rows>
__device__ inline void grouped_multiply(GroupedSums& sum, const Rows& rows, const T* weight, int depth, int columns,
                                        int column, bool multiplies) {
  T* const stages = dynamic_shared<T>();
  const int steps = (depth + kGroupedDepth - 1) / kGroupedDepth;
  const auto start = [&](int step) {
    T* const a_tile = stages + step % kGroupedStages * kGroupedStage;
    if (step < steps) {
      rows.copy(a_tile, step);
      hgemm_copy<HgemmCopy::async, kVectors, kGroupedDepth, kGroupedTile>(a_tile + kGroupedTile * kGroupedDepth, weight,
                                                                          depth, columns, step * kGroupedDepth, column);
    }
    cp_async_commit();  // of nothing at the end, so that the wait below counts right
  };
  for (int step = 0; step < kGroupedStages - 1; ++step) start(step);
#pragma unroll
  for (int i = 0; i < kGroupedRows; ++i) {
#pragma unroll
    for (int j = 0; j < kGroupedColumns; ++j) {
#pragma unroll
      for (float& value : sum[i][j]) value = 0;
    }
  }
  for (int step = 0; step < steps; ++step) {
    cp_async_wait<kGroupedStages - 2>();
    __syncthreads();
    start(step + kGroupedStages - 1);
    if (!multiplies) continue;
    const T* const a_tile = stages + step % kGroupedStages * kGroupedStage;
#pragma unroll
    for (int half = 0; half < kGroupedDepth / 16; ++half) {
      HgemmFragments<kGroupedRows, kGroupedColumns> fragments;
      hgemm_load_fragments<kGroupedTile>(fragments, a_tile, a_tile + kGroupedTile * kGroupedDepth, grouped_warp_row(),
                                         grouped_warp_column(), half);
      hgemm_multiply<T>(sum, fragments);
    }
  }
}

/// A warp's place in the list of tiles: 32 experts, one for each lane. Finds tiles in rising order.
class GroupedSearch {
 public:
  __device__ GroupedSearch(const int* offsets, int experts, int columns)
      : offsets_(offsets), experts_(experts), column_tiles_(static_cast<int>(grouped_tiles(columns))) {
    read();
  }

  /// The tile's expert, for all lanes: the first whose tiles end behind it. An expert without rows has none, so that
  /// its tiles end where those of the one before do. False behind the last tile.
  __device__ bool find(int tile, GroupedTile& place) {
    unsigned behind = __ballot_sync(0xffffffffU, tile < tile_end_);
    while (behind == 0) {
      first_ += 32;
      if (first_ >= experts_) return false;
      read();
      behind = __ballot_sync(0xffffffffU, tile < tile_end_);
    }
    const int lane = __ffs(static_cast<int>(behind)) - 1;
    const int row = __shfl_sync(0xffffffffU, row_, lane), row_end = __shfl_sync(0xffffffffU, row_end_, lane),
              tile_end = __shfl_sync(0xffffffffU, tile_end_, lane);
    const int tiles = static_cast<int>(grouped_tiles(row_end - row)) * column_tiles_;
    place = grouped_tile(first_ + lane, row, row_end, column_tiles_, tile - (tile_end - tiles));
    return true;
  }

 private:
  /// Each lane's expert from first_ on, and, by a sum over the lanes before, where its tiles end.
  __device__ void read() {
    const int lane = threadIdx.x % 32, expert = first_ + lane;
    const int before = first_ == 0 ? 0 : __shfl_sync(0xffffffffU, tile_end_, 31);
    row_ = offsets_[min(expert, experts_)], row_end_ = offsets_[min(expert + 1, experts_)];
    tile_end_ = static_cast<int>(grouped_tiles(row_end_ - row_)) * column_tiles_;
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2) {
      const int below = __shfl_up_sync(0xffffffffU, tile_end_, lanes);
      if (lane >= lanes) tile_end_ += below;
    }
    tile_end_ += before;
  }

  const int* offsets_;
  int experts_, column_tiles_;
  int first_ = 0, row_ = 0, row_end_ = 0, tile_end_ = 0;
};

}  // namespace tenfold::kernels
