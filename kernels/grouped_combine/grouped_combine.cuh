#pragma once
// The ladder of an expert's second product, whose rows go back to their tokens. grouped_combine.h says what each rung
// is called. Tiles, their list and its search are those of grouped_gemm's rung 5.

#include "grouped_combine_tile.cuh"

namespace tenfold::kernels {

/// Rung 0: two passes. Every row's result is written where the row is, and combine_tokens() reads it again. `rows` is
/// (tokens * active, columns): `active` times as large as the result.
template <class T, bool kVectors, bool kTransposed>
static __global__ void __launch_bounds__(kGroupedThreads, kVectors ? 2 : 1) combine_rows(T* rows, GroupedInput<T> in) {
  combine_each_tile<kVectors, kTransposed>(in, [&](const GroupedTile& tile, const GroupedSums& sum) {
    hgemm_store<kVectors>(rows, tile.row_end, in.columns, tile.row + grouped_warp_row(),
                          tile.column + grouped_warp_column(), sum);
  });
}

/// The second pass: a warp for each token. Lane j knows the token's row j and its scale, so that all are read by two
/// requests; rows are added in the order of rows_of, in float32, and the sum is rounded once.
template <class T, bool kVectors>
static __global__ void combine_tokens(T* out, const T* rows, const int* rows_of, const float* scales, int tokens,
                                      int active, int columns) {
  constexpr int kValues = kVectors ? kPacket<T> : 1;
  const int64_t token = int64_t{blockIdx.x} * (kGroupedThreads / 32) + threadIdx.x / 32;
  if (token >= tokens) return;
  const int lane = threadIdx.x % 32;
  int own = -1;
  if (lane < active) own = rows_of[token * active + lane];
  float own_scale = 1;
  if (own >= 0 && scales != nullptr) own_scale = scales[own];
  for (int begin = 0; begin < columns / kValues; begin += 32) {  // all lanes, as they shuffle
    const int at = begin + lane;
    const bool inside = at < columns / kValues;
    float sum[kValues] = {};
#pragma unroll 4  // and no branch around the loads, so that four rows are on their way at a time
    for (int j = 0; j < active; ++j) {
      const int row = __shfl_sync(0xffffffffU, own, j);
      const float scale = __shfl_sync(0xffffffffU, own_scale, j);
      Packet<T, kValues> more = {};
      if (row >= 0 && inside) more = packets_of<kValues>(rows + hgemm_offset(row, columns, 0))[at];
#pragma unroll
      for (int i = 0; i < kValues; ++i) sum[i] += scale * to_float(more.values[i]);
    }
    Packet<T, kValues> rounded;
#pragma unroll
    for (int i = 0; i < kValues; ++i) rounded.values[i] = from_float<T>(sum[i]);
    if (inside) packets_of<kValues>(out + token * columns)[at] = rounded;
  }
}

/// Rung 1: floats. The weighted rows are added to their tokens where the tile ends, by atomics of 4 bytes. No row is
/// written; but the sums are float32, must be 0 before and are rounded by a kernel of their own, so that L2 is asked
/// for more bytes than in rung 0. Whoever ends first adds first.
template <class T, bool kVectors, bool kTransposed>
static __global__ void __launch_bounds__(kGroupedThreads, kVectors ? 2 : 1)
    combine_floats(float* sums, GroupedInput<T> in, CombineTokens tokens) {
  combine_each_tile<kVectors, kTransposed>(in, [&](const GroupedTile& tile, GroupedSums& sum) {
    combine_each_row_pair(tile, tokens, sum, [&](auto& of_row, const RowPair& to) {
      const int column = tile.column + grouped_warp_column() + threadIdx.x % 4 * 2 + (combine_odd_row() ? 1 : 0);
#pragma unroll
      for (int j = 0; j < kGroupedColumns; ++j) {
        combine_exchange(of_row[j][0], of_row[j][1]);
        if (column + 8 * j >= in.columns) continue;
        if (to.first >= 0) atomicAdd(sums + hgemm_offset(to.first, in.columns, column + 8 * j), of_row[j][0]);
        if (to.second >= 0) atomicAdd(sums + hgemm_offset(to.second, in.columns, column + 8 * j), of_row[j][1]);
      }
    });
  });
}

/// Before the atomics: `count` packets of zeros.
template <class T, int kValues>
static __global__ void combine_zero(T* sums, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) packets_of<kValues>(sums)[i] = {};
}

/// After those of rung 1: `count` packets of sums, rounded.
template <class T, int kValues>
static __global__ void combine_round(T* out, const float* sums, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const Packet<float, kValues> sum = packets_of<kValues>(sums)[i];
  Packet<T, kValues> rounded;
#pragma unroll
  for (int j = 0; j < kValues; ++j) rounded.values[j] = from_float<T>(sum.values[j]);
  packets_of<kValues>(out)[i] = rounded;
}

/// Rung 2: pairs. Two neighbours of 16 bits in an atomic, in the result itself: half the bytes of rung 1, and no kernel
/// behind. The row is rounded before it is added, and the sum after each addition. For __nv_bfloat16 before
/// compute capability 9.0 it is a loop of compare-and-swap.
template <class T, bool kVectors, bool kTransposed>
static __global__ void __launch_bounds__(kGroupedThreads, kVectors ? 2 : 1)
    combine_pairs(T* out, GroupedInput<T> in, CombineTokens tokens) {
  combine_each_tile<kVectors, kTransposed>(in, [&](const GroupedTile& tile, GroupedSums& sum) {
    combine_each_row_pair(tile, tokens, sum, [&](auto& of_row, const RowPair& to) {
      const int column = tile.column + grouped_warp_column() + threadIdx.x % 4 * 2 + (combine_odd_row() ? 8 : 0);
#pragma unroll
      for (int j = 0; j < kGroupedColumns; j += 2) {
        uint32_t first = register_of<T>(of_row[j][0], of_row[j][1]),
                 second = register_of<T>(of_row[j + 1][0], of_row[j + 1][1]);
        combine_exchange(first, second);
        if (column + 8 * j >= in.columns) continue;
        if (to.first >= 0) red_add_pair(out + hgemm_offset(to.first, in.columns, column + 8 * j), first);
        if (to.second >= 0) red_add_pair(out + hgemm_offset(to.second, in.columns, column + 8 * j), second);
      }
    });
  });
}

/// The rows' gradient, and a part of the router's. The rows of a tile are gathered from `dout`, as grouped_gemm's rung
/// 4 does. A lane has two neighbours of each product p = dout * W^T; times the same two of `rows` they are a part of
/// the router's gradient, which the four lanes of a row add up: 32 columns in `parts` (parts of a row, all rows).
template <class T, bool kVectors>
static __global__ void __launch_bounds__(kGroupedThreads, kVectors ? 2 : 1)
    combine_backward(T* drows, float* parts, const T* rows, GroupedInput<T> in, const float* scales, int all_rows) {
  combine_each_tile<kVectors, true>(in, [&](const GroupedTile& tile, GroupedSums& sum) {
    const int column0 = tile.column + grouped_warp_column(), row0 = tile.row + grouped_warp_row();
#pragma unroll
    for (int i = 0; i < kGroupedRows; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = row0 + 16 * i + 8 * half + static_cast<int>(threadIdx.x) % 32 / 4;
        float of_row[kGroupedColumns][2];
        combine_load<kVectors>(of_row, rows, row, tile.row_end, in.columns, column0);
        float part = 0;
#pragma unroll
        for (int j = 0; j < kGroupedColumns; ++j)
          part += of_row[j][0] * sum[i][j][2 * half] + of_row[j][1] * sum[i][j][2 * half + 1];
        part += shuffle_xor(part, 1);
        part += shuffle_xor(part, 2);
        if (row < tile.row_end && threadIdx.x % 4 == 0) parts[hgemm_offset(column0 / 32, all_rows, row)] = part;
        const float scale = row < tile.row_end && scales != nullptr ? scales[row] : 1;
#pragma unroll
        for (int j = 0; j < kGroupedColumns; ++j) sum[i][j][2 * half] *= scale, sum[i][j][2 * half + 1] *= scale;
      }
    }
    hgemm_store<kVectors>(drows, tile.row_end, in.columns, row0, column0, sum);
  });
}

/// The router's gradient: a thread adds a row's parts, always in the same order.
static __global__ void combine_scales(float* dscales, const float* parts, const int* offsets, int experts,
                                      int parts_of_row, int all_rows) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= offsets[experts]) return;
  float sum = 0;
  for (int i = 0; i < parts_of_row; ++i) sum += parts[int64_t{i} * all_rows + row];
  dscales[row] = sum;
}

}  // namespace tenfold::kernels
