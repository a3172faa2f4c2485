#pragma once
// Products of tiles on tensor cores, for __half and __nv_bfloat16: mma.sync of (16, 16) by (16, 8), with sums in float.
//
// A warp has 16 rows, or several groups of 16. In the layout that mma.sync gives its results, called a product's below,
// lane i holds of each 8 columns two neighbours in rows i / 4 and i / 4 + 8. Two such results side by side, rounded to
// T, are what mma.sync takes as its left operand: weights go from one product to the next without leaving the
// registers.

#include "attention_tiles.cuh"
#include "kernels/ptx.cuh"

namespace tenfold::kernels {

inline constexpr int kMmaThreads = 128;  // of a block: four warps

/// Where 8 values of a tile with D values in a row lie: each row's are in an order of its own, exchanged by an
/// exclusive or, so that the eight rows of 16 bytes that ldmatrix reads at a time lie in different banks. Padding the
/// rows would do, too, but with D = 128 an SM of an A100 would then have room for one block instead of two. `row` from
/// the tile's beginning or from any multiple of 8 rows behind it. `second` is 1 for the neighbour of an even `eight`:
/// given apart, it leaves the distance of 64 values from one place to another a constant, and registers free.
template <int D>
__device__ inline int mma_place(int row, int eight, int second = 0) {
  const int order = D >= 64 ? row % 8 : row / 2 % 4;
  return row * D + eight / 8 * 64 + (eight % 8 ^ second ^ order) * 8;
}

/// Starts copies of rows first to first + kRows - 1 of a (count, D) matrix to shared memory; 0 for rows that are not
/// there. Where the matrix does not begin at 16 bytes, which an asynchronous copy wants, values are copied one by one.
template <int kRows, int D, class T>
__device__ inline void copy_tile(T* tile, const T* matrix, int first, int count, bool packets) {
  constexpr int kEights = D / 8, kRowsAtOnce = kMmaThreads / kEights;
  static_assert(kRows % kRowsAtOnce == 0 && kRowsAtOnce % 8 == 0);
  const int eight = static_cast<int>(threadIdx.x) % kEights, begin = static_cast<int>(threadIdx.x) / kEights;
  if (packets && first + kRows <= count) {
    // One address each way; the rest are distances that the compiler knows.
    T* to = tile + mma_place<D>(begin, eight);
    const T* from = matrix + static_cast<int64_t>(first + begin) * D + eight * 8;
#pragma unroll
    for (int row = 0; row < kRows; row += kRowsAtOnce) cp_async<16>(to + row * D, from + row * D);
    return;
  }
#pragma unroll 1
  for (int row = begin; row < kRows; row += kRowsAtOnce) {
    const bool there = first + row < count;
    T* to = tile + mma_place<D>(row, eight);
    const T* from = matrix + static_cast<int64_t>(there ? first + row : 0) * D + eight * 8;
    if (packets) {
      cp_async<16>(to, from, there ? 16 : 0);
    } else {
      for (int n = 0; n < 8; ++n) to[n] = there ? from[n] : from_float<T>(0);
    }
  }
}

/// What mma.sync takes of the warp's rows (16 * kGroups, D), in shared memory: their columns d to d + 15. `row` is lane
/// % 16 and `eight` lane / 16, given so that a caller computes them once.
template <int D, int kGroups, class T>
__device__ inline void load_rows(uint32_t (&a)[kGroups][4], const T* rows, int d, int row, int eight) {
#pragma unroll
  for (int group = 0; group < kGroups; ++group)
    ldmatrix_x4(a[group], rows + 16 * group * D + mma_place<D>(row, d / 8, eight));
}

/// products (16 * kGroups, 8 * kTiles) = rows (16 * kGroups, D) * columns (8 * kTiles, D)^T. `rows` are the warp's own:
/// where they lie in shared memory, or all of them in registers, from load_rows(); the columns in shared memory. Of the
/// products, the kTiles of the first group come first. What ldmatrix brings of the columns serves all groups.
template <int D, int kGroups = 1, int kProducts, class Rows, class T>
__device__ inline void mma_dots(float (&products)[kProducts][4], const Rows& rows, const T* columns) {
  constexpr int kTiles = kProducts / kGroups;
  constexpr bool kInRegisters = !std::is_convertible_v<Rows, const T*>;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int row = lane % 16, row_eight = lane / 16, column = lane % 8 + lane / 16 * 8, column_eight = lane / 8 % 2;
#pragma unroll
  for (int n = 0; n < kProducts; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) products[n][i] = 0;
  }
#pragma unroll
  for (int d = 0; d < D; d += 16) {
    uint32_t a[kGroups][4], b[4];
    if constexpr (!kInRegisters) load_rows<D>(a, rows, d, row, row_eight);
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      ldmatrix_x4(b, columns + 8 * n * D + mma_place<D>(column, d / 8, column_eight));  // 16 columns, 16 deep
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        float (&left)[4] = products[group * kTiles + n], (&right)[4] = products[group * kTiles + n + 1];
        if constexpr (kInRegisters) {
          mma_m16n8k16<T>(left, rows[d / 16][group], {b[0], b[1]}, left);
          mma_m16n8k16<T>(right, rows[d / 16][group], {b[2], b[3]}, right);
        } else {
          mma_m16n8k16<T>(left, a[group], {b[0], b[1]}, left);
          mma_m16n8k16<T>(right, a[group], {b[2], b[3]}, right);
        }
      }
    }
  }
}

/// sums (16 * kGroups, D) += weights (16 * kGroups, 8 * kTiles) * tile (8 * kTiles, D): weights a product, rounded to
/// T; the tile in shared memory. The groups one behind the other, as in mma_dots().
template <int D, int kGroups = 1, int kProducts, class T>
__device__ inline void mma_add(float (&sums)[kGroups * D / 8][4], const float (&weights)[kProducts][4], const T* tile) {
  constexpr int kTiles = kProducts / kGroups;
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int n = 0; n < kTiles; n += 2) {
    uint32_t a[kGroups][4];
#pragma unroll
    for (int i = 0; i < 4 * kGroups; ++i) {
      const float (&two)[4] = weights[i / 4 * kTiles + n + i % 4 / 2];
      a[i / 4][i % 4] = register_of<T>(two[i % 2 * 2], two[i % 2 * 2 + 1]);
    }
#pragma unroll
    for (int d = 0; d < D / 8; d += 2) {
      uint32_t b[4];
      ldmatrix_x4_trans(b, tile + 8 * n * D + mma_place<D>(lane % 16, d, lane / 16));  // 16 deep, 16 columns
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        float (&left)[4] = sums[group * D / 8 + d], (&right)[4] = sums[group * D / 8 + d + 1];
        mma_m16n8k16<T>(left, a[group], {b[0], b[1]}, left);
        mma_m16n8k16<T>(right, a[group], {b[2], b[3]}, right);
      }
    }
  }
}

/// The warp's sums, each times its row's factor, to rows first to first + 16 * kGroups - 1 of a (count, D) matrix. They
/// go by way of `stage`, as many rows of shared memory that only this warp still uses, so that lanes store 16
/// neighbouring bytes each instead of 4.
template <int D, int kFactors, class T>
__device__ inline void mma_store(T* matrix, T* stage, const float (&sums)[kFactors / 2 * D / 8][4],
                                 const float (&factors)[kFactors], int first, int count, bool packets) {
  constexpr int kGroups = kFactors / 2;  // a lane has two rows of each
  const int lane = static_cast<int>(threadIdx.x % 32);
  __syncwarp();  // the other lanes may still read these rows
#pragma unroll
  for (int n = 0; n < kGroups * D / 8; ++n) {
    const int group = n / (D / 8);
    uint32_t* words =
        reinterpret_cast<uint32_t*>(stage + 16 * group * D + mma_place<D>(lane / 4, n % (D / 8))) + lane % 4;
    words[0] = register_of<T>(sums[n][0] * factors[2 * group], sums[n][1] * factors[2 * group]);
    words[8 * D / 2] = register_of<T>(sums[n][2] * factors[2 * group + 1], sums[n][3] * factors[2 * group + 1]);
  }
  __syncwarp();
  constexpr int kEights = D / 8;
#pragma unroll
  for (int i = lane; i < 16 * kGroups * kEights; i += 32) {
    const int row = i / kEights, column = i % kEights;
    if (first + row >= count) continue;
    const Packet<T, 8> eight = *packets_of<8>(stage + mma_place<D>(row, column));
    const int64_t to = static_cast<int64_t>(first + row) * kEights + column;
    if (packets) {
      packets_of<8>(matrix)[to] = eight;
    } else {
      for (int n = 0; n < 8; ++n) matrix[8 * to + n] = eight.values[n];
    }
  }
}

/// Combines over the four lanes that share their rows of a product.
template <class Combine>
__device__ inline float combine_quad(float value, Combine combine) {
  value = combine(value, shuffle_xor(value, 1));
  return combine(value, shuffle_xor(value, 2));
}

}  // namespace tenfold::kernels
