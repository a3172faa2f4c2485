#pragma once
// What the rungs of grouped_combine.cuh share: a tile's product, with its weight transposed or not, and which token a
// lane's sums go to.

#include "grouped_combine.h"
#include "kernels/grouped_gemm/grouped_gemm_tile.cuh"
#include "ptx_pairs.cuh"

namespace tenfold::kernels {

/// Fragments where the tile of B is that of B's transpose: (128 columns, 32 deep), as a weight lies that is meant
/// transposed. A row has what mma wants of a column, so that ldmatrix need not turn it; of its four matrices the first
/// two are 8 columns, 16 deep, the next two the 8 columns behind.
template <class T>
__device__ inline void combine_load_transposed(HgemmFragments<kGroupedRows, kGroupedColumns>& fragments, const T* stage,
                                               int half) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kGroupedRows; ++i) {
    const int row = grouped_warp_row() + 16 * i + lane % 16;
    ldmatrix_x4(fragments.a[i], stage + hgemm_place<true, kGroupedDepth>(row, half * 2 + lane / 16));
  }
#pragma unroll
  for (int j = 0; j < kGroupedColumns; j += 2) {
    uint32_t four[4];
    const int column = grouped_warp_column() + 8 * (j + lane / 16) + lane % 8;
    ldmatrix_x4(four, stage + kGroupedBehindA + hgemm_place<true, kGroupedDepth>(column, half * 2 + lane / 8 % 2));
    fragments.b[j][0] = four[0], fragments.b[j][1] = four[1];
    fragments.b[j + 1][0] = four[2], fragments.b[j + 1][1] = four[3];
  }
}

/// grouped_multiply() for a weight that lies as (columns, depth).
template <bool kVectors, class T, class Rows>
__device__ inline void combine_multiply_transposed(GroupedSums& sum, const Rows& rows, const T* weight, int depth,
                                                   int columns, int column, bool multiplies) {
  const auto copy = [&](T* stage, int step) {
    rows.copy(stage, step);
    hgemm_copy<HgemmCopy::async, kVectors, kGroupedTile, kGroupedDepth>(stage + kGroupedBehindA, weight, columns, depth,
                                                                        column, step * kGroupedDepth);
  };
  const auto load = [](auto& fragments, const T* stage, int half) { combine_load_transposed(fragments, stage, half); };
  grouped_sum<T>(sum, (depth + kGroupedDepth - 1) / kGroupedDepth, multiplies, copy, load);
}

/// Calls leave(tile, sums) for each tile of the list that is this block's. A warp behind the expert's last row has sums
/// of 0.
template <bool kVectors, bool kTransposed, class T, class Leave>
__device__ inline void combine_each_tile(const GroupedInput<T>& in, const Leave& leave) {
  GroupedSearch search(in);
  GroupedTile tile;
  for (auto at = static_cast<int>(blockIdx.x); search.find(at, tile); at += static_cast<int>(gridDim.x)) {
    const RowsGathered<kVectors, T> rows(in, tile);
    const bool multiplies = tile.row + grouped_warp_row() < tile.row_end;
    const T* const weight = in.weight(tile.expert);
    GroupedSums sum;
    if constexpr (kTransposed) {
      combine_multiply_transposed<kVectors>(sum, rows, weight, in.depth, in.columns, tile.column, multiplies);
    } else {
      grouped_multiply<kVectors>(sum, rows, weight, in.depth, in.columns, tile.column, multiplies);
    }
    leave(tile, sum);
    __syncthreads();  // nobody copies the next tile over stages that another still reads
  }
}

/// Whose a row is, and what it is weighted with; null: 1.
struct CombineTokens {
  const int* token_of;
  const float* scales;
};

/// As mma leaves them, four lanes have a row's 8 columns, two neighbours each, and the next four lanes the next row's.
/// This is of the second of such two rows.
__device__ inline bool combine_odd_row() { return threadIdx.x / 4 % 2 == 1; }

/// Gives lanes of the first of two rows the other's `first` for their `second`: afterwards `first` is of the first row
/// in all 8 lanes, and `second` of the second. So 8 lanes write 32 neighbouring bytes of a row, a sector, and not four
/// lanes half of one.
template <class Word>
__device__ inline void combine_exchange(Word& first, Word& second) {
  const bool odd = combine_odd_row();
  const Word got = __shfl_xor_sync(0xffffffffU, odd ? first : second, 4);
  first = odd ? got : first;  // no reference to either: it would be kept on the stack
  second = odd ? second : got;
}

/// The tokens of two neighbouring rows; -1 behind the expert's last.
struct RowPair {
  int first, second;
};

/// Calls add(sums of the lane's row, [column tile][2], weighted; tokens) for each two rows that lanes can exchange.
template <class Add>
__device__ inline void combine_each_row_pair(const GroupedTile& tile, const CombineTokens& tokens,
                                             const GroupedSums& sum, const Add& add) {
#pragma unroll
  for (int i = 0; i < kGroupedRows; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile.row + grouped_warp_row() + 16 * i + 8 * half + static_cast<int>(threadIdx.x) % 32 / 4;
      const bool inside = row < tile.row_end;
      const int token = inside ? tokens.token_of[row] : -1;
      const float scale = inside && tokens.scales != nullptr ? tokens.scales[row] : 1;
      RowPair to{token, token};
      combine_exchange(to.first, to.second);
      float of_row[kGroupedColumns][2];
#pragma unroll
      for (int j = 0; j < kGroupedColumns; ++j)
        of_row[j][0] = scale * sum[i][j][2 * half], of_row[j][1] = scale * sum[i][j][2 * half + 1];
      add(of_row, to);
    }
  }
}

/// What hgemm_store() would write, read: a lane's two neighbours of each of four tiles of 8 columns; 0 beyond the
/// edges.
template <bool kVectors, class T>
__device__ inline void combine_load(float (&values)[kGroupedColumns][2], const T* from, int row, int row_end,
                                    int columns, int column0) {
  static_assert(kGroupedColumns == 4);
  const int lane = threadIdx.x % 32;
  if constexpr (kVectors) {
    const int column = column0 + 8 * (lane % 4);
    uint4 eight = {};
    if (row < row_end && column < columns)
      eight = *reinterpret_cast<const uint4*>(from + hgemm_offset(row, columns, column));
    uint32_t words[4] = {eight.x, eight.y, eight.z, eight.w};
    hgemm_transpose_words(words);
#pragma unroll
    for (int j = 0; j < kGroupedColumns; ++j) {
      T both[2];
      memcpy(static_cast<void*>(both), &words[j], sizeof(both));
      values[j][0] = to_float(both[0]), values[j][1] = to_float(both[1]);
    }
  } else {
#pragma unroll
    for (int j = 0; j < kGroupedColumns; ++j) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int column = column0 + 8 * j + lane % 4 * 2 + k;
        values[j][k] = row < row_end && column < columns ? to_float(from[hgemm_offset(row, columns, column)]) : 0;
      }
    }
  }
}

}  // namespace tenfold::kernels
