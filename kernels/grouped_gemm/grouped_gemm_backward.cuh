#pragma once
// The gradient of the weights of grouped_gemm.cuh's products: groups along the inner dimension.

#include "grouped_gemm_tile.cuh"

namespace tenfold::kernels {

/// Fragments of A^T and B from tiles that both have the inner dimension down: (32, 128) each. ldmatrix transposes A's
/// 8 x 8 matrices on the way, as hgemm_load_fragments() does with B's; of a lane's four the first two are neighbours in
/// A's rows, the next two 8 deeper.
template <class T>
__device__ inline void grouped_load_transposed(HgemmFragments<kGroupedRows, kGroupedColumns>& fragments, const T* stage,
                                               int half) {
  const int lane = threadIdx.x % 32, depth = half * 16 + lane % 8 + lane / 16 * 8;
#pragma unroll
  for (int i = 0; i < kGroupedRows; ++i) {
    const int packet = (grouped_warp_row() + 16 * i) / 8 + lane / 8 % 2;
    ldmatrix_x4_trans(fragments.a[i], stage + hgemm_place<true, kGroupedTile>(depth, packet));
  }
#pragma unroll
  for (int j = 0; j < kGroupedColumns; j += 2) {
    uint32_t four[4];
    const int packet = grouped_warp_column() / 8 + j + lane / 16;
    ldmatrix_x4_trans(four, stage + kGroupedBehindA + hgemm_place<true, kGroupedTile>(half * 16 + lane % 16, packet));
    fragments.b[j][0] = four[0], fragments.b[j][1] = four[1];
    fragments.b[j + 1][0] = four[2], fragments.b[j + 1][1] = four[3];
  }
}

/// dweights[e] = (expert e's rows of x)^T * (its rows of dout): a tile of an expert's gradient for each block. Every
/// expert has as many tiles, which the host knows; but the inner dimension is an expert's rows, so that a tile has an
/// iteration for each 32 of them, and one without rows is zeros. The places of an iteration's rows are looked up one
/// iteration before their copies start.
template <class T, bool kVectors>
static __global__ void __launch_bounds__(kGroupedThreads, kVectors ? 2 : 1)
    grouped_weight_gradient(T* dweights, GroupedInput<T> in, const T* dout) {
  const int column_tiles = static_cast<int>(grouped_tiles(in.columns)),
            tiles = static_cast<int>(grouped_tiles(in.depth)) * column_tiles;
  const int expert = static_cast<int>(blockIdx.x) / tiles;
  const GroupedTile tile = grouped_tile(expert, 0, in.depth, column_tiles, static_cast<int>(blockIdx.x) % tiles);
  const int begin = in.offsets[expert], end = in.offsets[expert + 1];
  int source[2];
  grouped_look_up<kGroupedTile>(source, in, begin, end);
  const auto copy = [&](T* stage, int step) {
    const int row = begin + step * kGroupedDepth;
    grouped_copy_rows<kVectors, kGroupedTile>(stage, in, source, tile.row);
    grouped_look_up<kGroupedTile>(source, in, row + kGroupedDepth, end);
    hgemm_copy<HgemmCopy::async, kVectors, kGroupedDepth, kGroupedTile>(stage + kGroupedBehindA, dout, end, in.columns,
                                                                        row, tile.column);
  };
  const auto load = [](auto& fragments, const T* stage, int half) { grouped_load_transposed(fragments, stage, half); };
  GroupedSums sum;
  grouped_sum<T>(sum, (end - begin + kGroupedDepth - 1) / kGroupedDepth, true, copy, load);
  hgemm_store<kVectors>(dweights + static_cast<int64_t>(expert) * in.depth * in.columns, in.depth, in.columns,
                        tile.row + grouped_warp_row(), tile.column + grouped_warp_column(), sum);
}

}  // namespace tenfold::kernels
