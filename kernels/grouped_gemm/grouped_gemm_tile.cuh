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

/// Where the two rows are that this thread copies a packet of, for a tile of kWidth columns whose rows lie anywhere: -1
/// from `row_end` on.
template <int kWidth, class T>
__device__ inline void grouped_look_up(int (&source)[2], const GroupedInput<T>& in, int row, int row_end) {
  constexpr int kPackets = kWidth / 8;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int at = row + static_cast<int>(threadIdx.x) / kPackets + i * (kGroupedThreads / kPackets);
    source[i] = -1;
    if (at < row_end) source[i] = in.source_of(at);
  }
}

/// Copies kWidth columns from `column0` on of the rows that were looked up; 0 beyond the edges. hgemm_copy() for rows
/// that lie anywhere.
template <bool kVectors, int kWidth, class T>
__device__ inline void grouped_copy_rows(T* tile, const GroupedInput<T>& in, const int (&source)[2], int column0) {
  constexpr int kPackets = kWidth / 8;
  const int packet = threadIdx.x % kPackets, column = column0 + packet * 8;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int place = hgemm_place<true, kWidth>(threadIdx.x / kPackets + i * (kGroupedThreads / kPackets), packet);
    const T* const from = in.x + hgemm_offset(source[i], in.depth, column);
    const bool row_inside = source[i] >= 0;
    if constexpr (kVectors) {
      const bool inside = row_inside && column < in.depth;
      cp_async<16>(tile + place, inside ? from : in.x, inside ? 16 : 0);
    } else {
      HgemmPacket<T> eight = {};
      for (int j = 0; j < 8; ++j) {
        if (row_inside && column + j < in.depth) eight.values[j] = from[j];
      }
      packets_of<8>(tile)[place / 8] = eight;
    }
  }
}

/// Rows of a tile that lie anywhere, looked up once for it.
template <bool kVectors, class T>
struct RowsGathered {
  const GroupedInput<T>& in;
  int source[2];

  __device__ RowsGathered(const GroupedInput<T>& input, const GroupedTile& tile) : in(input) {
    grouped_look_up<kGroupedDepth>(source, in, tile.row, tile.row_end);
  }
  __device__ void copy(T* tile, int step) const {
    grouped_copy_rows<kVectors, kGroupedDepth>(tile, in, source, step * kGroupedDepth);
  }
};

/// A thread's 64 sums of a tile, as mma leaves them.
using GroupedSums = float[kGroupedRows][kGroupedColumns][4];

/// A thread's warp within the tile.
__device__ inline int grouped_warp_row() { return static_cast<int>(threadIdx.x) / 128 * 64; }
__device__ inline int grouped_warp_column() { return static_cast<int>(threadIdx.x) / 32 % 4 * 32; }

/// Where the tile of B lies in a stage, behind that of A.
inline constexpr int kGroupedBehindA = kGroupedTile * kGroupedDepth;

/// Sums of `steps` iterations. copy(stage, step) starts the copies of an iteration, load(fragments, stage, half) takes
/// half of its depth out of shared memory. Copies run three iterations ahead by cp.async, with one barrier an
/// iteration, and start again with each tile: before the next one all threads must have left this one. A warp that does
/// not multiply still copies.
template <class T, class Copy, class Load>
__device__ inline void grouped_sum(GroupedSums& sum, int steps, bool multiplies, const Copy& copy, const Load& load) {
  T* const stages = dynamic_shared<T>();
  const auto start = [&](int step) {
    if (step < steps) copy(stages + step % kGroupedStages * kGroupedStage, step);
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
    const T* const stage = stages + step % kGroupedStages * kGroupedStage;
#pragma unroll
    for (int half = 0; half < kGroupedDepth / 16; ++half) {
      HgemmFragments<kGroupedRows, kGroupedColumns> fragments;
      load(fragments, stage, half);
      hgemm_multiply<T>(sum, fragments);
    }
  }
}

/// The product of a tile's rows with the tile of a weight (depth, columns) from `column` on.
template <bool kVectors, class T, class Rows>
__device__ inline void grouped_multiply(GroupedSums& sum, const Rows& rows, const T* weight, int depth, int columns,
                                        int column, bool multiplies) {
  const auto copy = [&](T* stage, int step) {
    rows.copy(stage, step);
    hgemm_copy<HgemmCopy::async, kVectors, kGroupedDepth, kGroupedTile>(stage + kGroupedBehindA, weight, depth, columns,
                                                                        step * kGroupedDepth, column);
  };
  const auto load = [](auto& fragments, const T* stage, int half) {
    hgemm_load_fragments<kGroupedTile>(fragments, stage, stage + kGroupedBehindA, grouped_warp_row(),
                                       grouped_warp_column(), half);
  };
  grouped_sum<T>(sum, (depth + kGroupedDepth - 1) / kGroupedDepth, multiplies, copy, load);
}

/// A warp's place in the list of tiles: 32 experts, one for each lane. Finds tiles in rising order.
template <class T>
class GroupedSearch {
 public:
  explicit __device__ GroupedSearch(const GroupedInput<T>& in) : in_(in) { read(); }

  /// The tile's expert, for all lanes: the first whose tiles end behind it. An expert without rows has none, so that
  /// its tiles end where those of the one before do. False behind the last tile.
  __device__ bool find(int tile, GroupedTile& place) {
    unsigned behind = __ballot_sync(0xffffffffU, tile < tile_end_);
    while (behind == 0) {
      first_ += 32;
      if (first_ >= in_.experts) return false;
      read();
      behind = __ballot_sync(0xffffffffU, tile < tile_end_);
    }
    const int lane = __ffs(static_cast<int>(behind)) - 1, expert = first_ + lane;
    const int row = in_.offsets[expert], row_end = in_.offsets[expert + 1];  // not kept: each register counts
    const int tiles = static_cast<int>(grouped_tiles(row_end - row)) * column_tiles(),
              first_tile = __shfl_sync(0xffffffffU, tile_end_, lane) - tiles;
    place = grouped_tile(expert, row, row_end, column_tiles(), tile - first_tile);
    return true;
  }

 private:
  __device__ int column_tiles() const { return static_cast<int>(grouped_tiles(in_.columns)); }

  /// Each lane's expert from first_ on, and, by a sum over the lanes before, where its tiles end.
  __device__ void read() {
    const int lane = threadIdx.x % 32, expert = first_ + lane;
    const int before = first_ == 0 ? 0 : __shfl_sync(0xffffffffU, tile_end_, 31);
    const int row = in_.offsets[min(expert, in_.experts)], row_end = in_.offsets[min(expert + 1, in_.experts)];
    tile_end_ = static_cast<int>(grouped_tiles(row_end - row)) * column_tiles();
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2) {
      const int below = __shfl_up_sync(0xffffffffU, tile_end_, lanes);
      if (lane >= lanes) tile_end_ += below;
    }
    tile_end_ += before;
  }

  const GroupedInput<T>& in_;
  int first_ = 0, tile_end_ = 0;
};

}  // namespace tenfold::kernels
