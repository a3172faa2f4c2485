#pragma once
// What the tensor-core rungs of the ladder share: how a block's tiles of A and B lie in shared memory, how they come
// there, how a warp multiplies fragments, and how the sums leave.

#include "hgemm_tile_order.h"
#include "kernels/ptx.cuh"
#include "kernels/rows.cuh"

namespace tenfold::kernels {

/// Where an element lies: sizes fit in an int, their products do not.
__device__ inline int64_t hgemm_offset(int row, int columns, int column) {
  return static_cast<int64_t>(row) * columns + column;
}

template <class T>
using HgemmPacket = Packet<T, 8>;

// Tiles in shared memory, A (rows, 32) and B (32, columns), are row-major like their matrices, in packets of 8
// elements. kSwizzled: a packet's place in its row depends on the row, so that the 8 rows of a matrix of ldmatrix lie
// in 8 different groups of 4 banks. In A a row is 64 bytes, and rows 2 apart would meet; in B it is a multiple of 128
// bytes, and all would.
inline constexpr int kHgemmDepth = 32;

/// Elements of one stage in shared memory: a tile of A, then one of B.
constexpr int hgemm_stage(int rows, int columns) { return (rows + columns) * kHgemmDepth; }

/// Where a packet of a tile of rows of kWidth elements lies, in elements.
template <bool kSwizzled, int kWidth>
__device__ inline int hgemm_place(int row, int packet) {
  static_assert(kWidth == 32 || kWidth % 64 == 0);
  const int swizzle = kWidth == 32 ? row / 2 % 4 : row % 8;
  return row * kWidth + (kSwizzled ? packet ^ swizzle : packet) * 8;
}

enum class HgemmCopy { plain, swizzled, async };

/// Copies the tile of kRows x kWidth elements from (row0, column0) of a matrix on, by 256 threads, a packet at a time
/// and neighbours by neighbours; 0 beyond the edges. By registers, or with `async` straight to shared memory by
/// cp.async, swizzled: the thread then goes on at once. Without kVectors all goes by registers, element by element.
template <HgemmCopy kHow, bool kVectors, int kRows, int kWidth, class T>
__device__ inline void hgemm_copy(T* tile, const T* matrix, int rows, int columns, int row0, int column0) {
  constexpr int kPackets = kWidth / 8, kApart = 256 / kPackets;
  const int tile_row = threadIdx.x / kPackets, packet = threadIdx.x % kPackets, column = column0 + packet * 8;
  int64_t at = hgemm_offset(row0 + tile_row, columns, column);
#pragma unroll(kVectors ? kRows / kApart : 1)  // element by element there are enough instructions as it is
  for (int down = 0; down < kRows; down += kApart, at += static_cast<int64_t>(kApart) * columns) {
    T* const to = tile + hgemm_place<kHow != HgemmCopy::plain, kWidth>(tile_row + down, packet);
    const bool row_inside = row0 + tile_row + down < rows;
    if constexpr (kHow == HgemmCopy::async && kVectors) {
      const bool inside = row_inside && column < columns;
      cp_async<16>(to, inside ? matrix + at : matrix, inside ? 16 : 0);
    } else {
      HgemmPacket<T> eight = {};
      if constexpr (kVectors) {
        if (row_inside && column < columns) eight = *packets_of<8>(matrix + at);
      } else {
        for (int i = 0; i < 8; ++i) {
          if (row_inside && column + i < columns) eight.values[i] = matrix[at + i];
        }
      }
      *packets_of<8>(to) = eight;
    }
  }
}

/// What a warp multiplies at one step of 16 in depth: kRows x 16 rows of A, kColumns x 8 columns of B.
template <int kRows, int kColumns>
struct HgemmFragments {
  uint32_t a[kRows][4], b[kColumns][2];
};

/// Fragments from swizzled tiles with ldmatrix: one for 16 x 16 elements of A, one for 16 x 16 of B, transposed on the
/// way. `step` is 0 or 1; the warp's part of the block's tile begins at (row, column).
template <int kTileColumns, int kRows, int kColumns, class T>
__device__ inline void hgemm_load_fragments(HgemmFragments<kRows, kColumns>& fragments, const T* a_tile,
                                            const T* b_tile, int row, int column, int step) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    ldmatrix_x4(fragments.a[i],
                a_tile + hgemm_place<true, kHgemmDepth>(row + 16 * i + lane % 16, step * 2 + lane / 16));
  }
#pragma unroll
  for (int j = 0; j < kColumns; j += 2) {
    uint32_t four[4];
    ldmatrix_x4_trans(four,
                      b_tile + hgemm_place<true, kTileColumns>(step * 16 + lane % 16, column / 8 + j + lane / 16));
    fragments.b[j][0] = four[0], fragments.b[j][1] = four[1];
    fragments.b[j + 1][0] = four[2], fragments.b[j + 1][1] = four[3];
  }
}

/// sum += a * b. Neighbours in the order share a fragment of B, and every second row of mma goes backwards, so that it
/// does so at the turn as well.
template <class T, int kRows, int kColumns>
__device__ inline void hgemm_multiply(float (&sum)[kRows][kColumns][4],
                                      const HgemmFragments<kRows, kColumns>& fragments) {
#pragma unroll
  for (int j = 0; j < kColumns; ++j) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int r = j % 2 == 0 ? i : kRows - 1 - i;
      mma_m16n8k16<T>(sum[r][j], fragments.a[r], fragments.b[j], sum[r][j]);
    }
  }
}

/// Exchanges words[i] of lane j with words[j] of lane i, for the four lanes of each group of four.
__device__ inline void hgemm_transpose_words(uint32_t (&words)[4]) {
#pragma unroll
  for (int distance = 1; distance < 4; distance *= 2) {
    const bool upper = (threadIdx.x & distance) != 0;
#pragma unroll
    for (int first = 0; first < 4; ++first) {
      if ((first & distance) != 0) continue;
      uint32_t &low = words[first], &high = words[first + distance];
      const uint32_t got = __shfl_xor_sync(0xffffffffU, upper ? low : high, distance);
      (upper ? low : high) = got;
    }
  }
}

/// Writes a warp's sums to C from (row0, column0) on. As mma leaves them, a lane has two neighbours of each tile of 8
/// columns: 4 bytes, and half a sector for the four lanes of a row. With kVectors the four exchange what they have of
/// four tiles, so that each has all 8 columns of one, 16 bytes.
template <bool kVectors, int kRows, int kColumns, class T>
__device__ inline void hgemm_store(T* c, int m, int n, int row0, int column0, const float (&sum)[kRows][kColumns][4]) {
  static_assert(kColumns % 4 == 0);
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row0 + 16 * i + 8 * half + lane / 4;
#pragma unroll
      for (int j = 0; j < kColumns; j += 4) {
        uint32_t words[4];
#pragma unroll
        for (int tile = 0; tile < 4; ++tile) {
          const float* from = &sum[i][j + tile][2 * half];
          words[tile] = register_of<T>(from[0], from[1]);
        }
        if constexpr (kVectors) {
          hgemm_transpose_words(words);
          const int column = column0 + 8 * (j + lane % 4);
          const uint4 eight = {words[0], words[1], words[2], words[3]};
          if (row < m && column < n) *reinterpret_cast<uint4*>(c + hgemm_offset(row, n, column)) = eight;
        } else {
#pragma unroll
          for (int tile = 0; tile < 4; ++tile) {
            const int column = column0 + 8 * (j + tile) + lane % 4 * 2;
            uint16_t* to = reinterpret_cast<uint16_t*>(c) + hgemm_offset(row, n, column);
            if (row < m && column < n) to[0] = static_cast<uint16_t>(words[tile]);
            if (row < m && column + 1 < n) to[1] = static_cast<uint16_t>(words[tile] >> 16);
          }
        }
      }
    }
  }
}

}  // namespace tenfold::kernels
