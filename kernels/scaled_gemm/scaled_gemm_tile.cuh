#pragma once
// What the rungs of the ladder share: how tiles of A and B come to shared memory, how a warp multiplies fragments, how
// sums are scaled, and how they leave. Both matrices have k innermost, so that one function copies either.

#include "kernels/ptx_8bit.cuh"
#include "kernels/rows.cuh"
#include "scaled_gemm.h"

namespace tenfold::kernels {

template <class T>
struct ScaledGemmInput {
  const T *a, *b;
  const float *a_scales, *b_scales;
  int m, n, k;
};

/// What products of T are summed in before a scale is there.
template <class T>
using ScaledGemmSum = std::conditional_t<std::is_same_v<T, int8_t>, int, float>;

/// Threads of a block.
inline constexpr int kScaledGemmThreads = 256;

/// Bytes of a row of a tile in shared memory, which are as many values of k.
inline constexpr int kScaledGemmDepth = 64;
/// Steps of so many that share a scale.
inline constexpr int kScaledGemmSteps = static_cast<int>(kScaleBlock) / kScaledGemmDepth;

/// Where an element lies: sizes fit in an int, their products do not.
__device__ inline int64_t scaled_gemm_offset(int row, int columns, int column) {
  return static_cast<int64_t>(row) * columns + column;
}

/// How rows of 64 bytes lie in shared memory, four packets of 16 each. `padded`: 80 bytes apart, so that packets of 8
/// neighbouring rows lie in 8 different groups of 4 banks. `swizzled` does the same without the room: a packet's place
/// depends on its row.
enum class ScaledGemmLayout { plain, padded, swizzled };

template <ScaledGemmLayout kLayout>
inline constexpr int kScaledGemmRow = kLayout == ScaledGemmLayout::padded ? 80 : kScaledGemmDepth;  ///< bytes

/// Where a packet begins, in bytes.
template <ScaledGemmLayout kLayout>
__device__ inline int scaled_gemm_place(int row, int packet) {
  const int place = kLayout == ScaledGemmLayout::swizzled ? packet ^ row / 2 % 4 : packet;
  return row * kScaledGemmRow<kLayout> + place * 16;
}

/// Copies kRows x 64 values from (row0, k0) of a matrix (rows, k) on, by 256 threads, a packet at a time; 0 beyond the
/// edges. By registers, or with kAsync straight to shared memory by cp.async: the thread then goes on at once. Without
/// kVectors all goes by registers, value by value.
template <ScaledGemmLayout kLayout, bool kAsync, bool kVectors, int kRows, class T>
__device__ inline void scaled_gemm_copy(T* tile, const T* matrix, int rows, int k, int row0, int k0) {
  constexpr int kApart = kScaledGemmThreads / 4;  // 4 packets to a row
  const int tile_row = threadIdx.x / 4, packet = threadIdx.x % 4, column = k0 + packet * 16;
#pragma unroll(kVectors ? kRows / kApart : 1)  // value by value there are enough instructions as it is
  for (int down = 0; down < kRows; down += kApart) {
    const int row = tile_row + down;
    const T* const from = matrix + scaled_gemm_offset(row0 + row, k, column);
    T* const to = tile + scaled_gemm_place<kLayout>(row, packet);
    if constexpr (kAsync && kVectors) {
      const bool inside = row0 + row < rows && column < k;
      cp_async<16>(to, inside ? from : matrix, inside ? 16 : 0);
    } else {
      uint4 sixteen = {};
      if constexpr (kVectors) {
        if (row0 + row < rows && column < k) sixteen = *reinterpret_cast<const uint4*>(from);
      } else {
        uint32_t words[4] = {};
#pragma unroll
        for (int i = 0; i < 16; ++i) {
          uint8_t bits = 0;
          if (row0 + row < rows && column + i < k) bits = reinterpret_cast<const uint8_t*>(from)[i];
          words[i / 4] |= uint32_t{bits} << i % 4 * 8;
        }
        sixteen = {words[0], words[1], words[2], words[3]};
      }
      *reinterpret_cast<uint4*>(to) = sixteen;
    }
  }
}

/// The scale of a row of A in the `block`-th 128 of k; 0 beyond the last row.
template <ScaledGemmScales kScales, class T>
__device__ inline float scaled_gemm_a_scale(const ScaledGemmInput<T>& in, int block, int row) {
  if constexpr (kScales == ScaledGemmScales::tensor) return in.a_scales[0];
  return row < in.m ? in.a_scales[scaled_gemm_offset(block, in.m, row)] : 0;
}

/// The scale of a tile's columns, which share it: a tile lies within 128 of them.
template <ScaledGemmScales kScales, class T>
__device__ inline float scaled_gemm_b_scale(const ScaledGemmInput<T>& in, int block, int column) {
  if constexpr (kScales == ScaledGemmScales::tensor) return in.b_scales[0];
  constexpr int kBlock = static_cast<int>(kScaleBlock);
  return in.b_scales[scaled_gemm_offset(column / kBlock, (in.k + kBlock - 1) / kBlock, block)];
}

/// On tensor cores 8 warps compute a tile of 128 x 64, each 32 x 32 results in 2 x 4 fragments of 16 x 8. hgemm's warps
/// have twice as many: here a thread keeps every sum twice, that of a block of k and that of all blocks before.
inline constexpr int kScaledGemmTileRows = 128, kScaledGemmTileColumns = 64, kScaledGemmRows = 2,
                     kScaledGemmColumns = 4;
template <class Number>
using ScaledGemmResults = Number[kScaledGemmRows][kScaledGemmColumns][4];

/// Bytes of a tile of A and one of B in shared memory.
inline constexpr int kScaledGemmStage = (kScaledGemmTileRows + kScaledGemmTileColumns) * kScaledGemmDepth;

/// Where the block's tile begins in C.
struct ScaledGemmCorner {
  int row, column;
};
__device__ inline ScaledGemmCorner scaled_gemm_corner(int n) {
  const int column_tiles = (n + kScaledGemmTileColumns - 1) / kScaledGemmTileColumns;
  return {static_cast<int>(blockIdx.x / column_tiles * kScaledGemmTileRows),
          static_cast<int>(blockIdx.x % column_tiles * kScaledGemmTileColumns)};
}

/// Where a warp's results begin in the tile.
__device__ inline int scaled_gemm_warp_row() { return static_cast<int>(threadIdx.x / 64 * 32); }
__device__ inline int scaled_gemm_warp_column() { return static_cast<int>(threadIdx.x / 32 % 2 * 32); }

/// sum += a * b for 16 rows of A and the warp's 32 columns, 32 deep, without scales.
template <class T>
__device__ inline void scaled_gemm_multiply_row(ScaledGemmSum<T> (&sum)[kScaledGemmColumns][4], const uint32_t (&a)[4],
                                                const uint32_t (&b)[kScaledGemmColumns][2]) {
#pragma unroll
  for (int j = 0; j < kScaledGemmColumns; ++j) {
    if constexpr (std::is_same_v<T, int8_t>) {
      mma_m16n8k32_s8(sum[j], a, b[j], sum[j]);
    } else {
      mma_m16n8k32_e4m3(sum[j], a, b[j], sum[j]);
    }
  }
}

/// sum += the product of a warp's parts of two swizzled tiles, without scales. ldmatrix gives a lane two neighbours of
/// 16 bits: four of 8 bits, what mma wants of either matrix.
template <class T>
__device__ inline void scaled_gemm_multiply(ScaledGemmResults<ScaledGemmSum<T>>& sum, const T* a_tile,
                                            const T* b_tile) {
  constexpr auto kSwizzled = ScaledGemmLayout::swizzled;
  const int lane = threadIdx.x % 32;
#pragma unroll(std::is_same_v<T, int8_t> ? 2 : 1)  // before 8.9 both, widened, take more registers than there are
  for (int part = 0; part < kScaledGemmDepth / 32; ++part) {
    uint32_t b[kScaledGemmColumns][2];
#pragma unroll
    for (int j = 0; j < kScaledGemmColumns; j += 2) {
      const int row = scaled_gemm_warp_column() + lane / 16 * 8 + lane % 8;  // 16 rows on the swizzle is the same
      uint32_t four[4];
      ldmatrix_x4(four, b_tile + scaled_gemm_place<kSwizzled>(row, part * 2 + lane / 8 % 2) + 8 * j * kScaledGemmDepth);
      b[j][0] = four[0], b[j][1] = four[1];
      b[j + 1][0] = four[2], b[j + 1][1] = four[3];
    }
#pragma unroll
    for (int i = 0; i < kScaledGemmRows; ++i) {
      const int row = scaled_gemm_warp_row() + lane % 16;
      uint32_t a[4];
      ldmatrix_x4(a, a_tile + scaled_gemm_place<kSwizzled>(row, part * 2 + lane / 16) + 16 * i * kScaledGemmDepth);
      scaled_gemm_multiply_row<T>(sum[i], a, b);
    }
  }
}

/// A thread's scales, those of A and B multiplied: two rows of each fragment.
using ScaledGemmScaleRows = float[kScaledGemmRows][2];
template <ScaledGemmScales kScales, class T>
__device__ inline void scaled_gemm_load_scales(ScaledGemmScaleRows& scales, const ScaledGemmInput<T>& in, int block,
                                               int row0, int column0) {
  row0 += scaled_gemm_warp_row() + static_cast<int>(threadIdx.x % 32 / 4);
  const float b_scale = scaled_gemm_b_scale<kScales>(in, block, column0);
#pragma unroll
  for (int i = 0; i < kScaledGemmRows; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      scales[i][half] = b_scale * scaled_gemm_a_scale<kScales>(in, block, row0 + 16 * i + 8 * half);
  }
}

/// Promotes the sums of a block of k: sum += scale * partial in float32, on CUDA cores; partial = 0.
template <class Sum>
__device__ inline void scaled_gemm_promote(ScaledGemmResults<float>& sum, ScaledGemmResults<Sum>& partial,
                                           const ScaledGemmScaleRows& scales) {
#pragma unroll
  for (int i = 0; i < kScaledGemmRows; ++i) {
#pragma unroll
    for (int j = 0; j < kScaledGemmColumns; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        sum[i][j][e] += scales[i][e / 2] * static_cast<float>(partial[i][j][e]);
        partial[i][j][e] = 0;
      }
    }
  }
}

/// Writes a thread's results, two neighbours at a time: the four lanes of a row have 8 floats, a sector.
template <bool kVectors>
__device__ inline void scaled_gemm_store(float* c, int m, int n, int row0, int column0,
                                         const ScaledGemmResults<float>& sum) {
  row0 += scaled_gemm_warp_row() + static_cast<int>(threadIdx.x % 32 / 4);
  column0 += scaled_gemm_warp_column() + static_cast<int>(threadIdx.x % 4 * 2);
#pragma unroll
  for (int i = 0; i < kScaledGemmRows; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row0 + 16 * i + 8 * half;
#pragma unroll
      for (int j = 0; j < kScaledGemmColumns; ++j) {
        const int column = column0 + 8 * j;
        if (row >= m || column >= n) continue;
        float* const to = c + scaled_gemm_offset(row, n, column);
        const float2 two = {sum[i][j][2 * half], sum[i][j][2 * half + 1]};
        if constexpr (kVectors) {
          *reinterpret_cast<float2*>(to) = two;
        } else {
          to[0] = two.x;
          if (column + 1 < n) to[1] = two.y;
        }
      }
    }
  }
}

}  // namespace tenfold::kernels
