#pragma once
// The ladder of C (m, n) = A (m, k) * B (n, k)^T in 8 bits with scales. scaled_gemm.h says what each rung is called.
//
// In rungs 1 to 4 a block computes one tile of C, in steps of 64 of k. The grid is one-dimensional. Where a tile
// reaches over the edge of a matrix, loads give 0 and nothing is stored. On tensor cores one block for each SM is asked
// for, so that ptxas takes the registers it needs; left to itself it spills a few to fit two.

#include "scaled_gemm_tile.cuh"

namespace tenfold::kernels {

/// Rows and columns of a block of rung 0, a thread for each result; and of a tile of rung 1.
inline constexpr int kDequantiseRows = 8, kDequantiseColumns = 32, kPackedTile = 64;

/// Rung 0: one thread computes one result from values that it scales one by one, as a framework does that turns codes
/// back into floats first. A warp's 32 columns are 32 rows of B, since k is innermost: a load of one byte from each
/// touches 32 sectors, 1024 bytes for 32.
template <class T, ScaledGemmScales kScales>
static __global__ void __launch_bounds__(kScaledGemmThreads) scaled_gemm_dequantise(float* c, ScaledGemmInput<T> in) {
  const int column_tiles = (in.n + kDequantiseColumns - 1) / kDequantiseColumns;
  const int row = blockIdx.x / column_tiles * kDequantiseRows + threadIdx.x / 32;
  const int column = blockIdx.x % column_tiles * kDequantiseColumns + threadIdx.x % 32;
  if (row >= in.m || column >= in.n) return;
  float sum = 0;
  for (int i = 0; i < in.k; ++i) {
    const int block = i / static_cast<int>(kScaleBlock);
    const auto from_a = static_cast<float>(in.a[scaled_gemm_offset(row, in.k, i)]);
    const auto from_b = static_cast<float>(in.b[scaled_gemm_offset(column, in.k, i)]);
    sum += scaled_gemm_a_scale<kScales>(in, block, row) * from_a *
           (scaled_gemm_b_scale<kScales>(in, block, column) * from_b);
  }
  c[scaled_gemm_offset(row, in.n, column)] = sum;
}

/// Four neighbours of k, as the CUDA cores multiply them: int8 as they are, e4m3 as floats.
__device__ inline int scaled_gemm_four(uint32_t word, int8_t) { return static_cast<int>(word); }
__device__ inline float4 scaled_gemm_four(uint32_t word, __nv_fp8_e4m3) {
  const auto two = [&](int half) {
    const uint32_t bits = halves_of_e4m3(word, half);
    return __half22float2(__half2(__half2_raw{static_cast<uint16_t>(bits), static_cast<uint16_t>(bits >> 16)}));
  };
  const float2 first = two(0), second = two(1);
  return {first.x, first.y, second.x, second.y};
}
__device__ inline int scaled_gemm_dot(int a, int b, int sum) { return __dp4a(a, b, sum); }
__device__ inline float scaled_gemm_dot(float4 a, float4 b, float sum) {
  return sum + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

/// Rung 1: scales leave the inner loop. 128 neighbours of k share a scale on either side, so that their products can be
/// summed as they are, and the sum be scaled once. Then values may stay packed: a load of 16 bytes brings 16 of them,
/// and __dp4a multiplies four int8 with four and adds, in one instruction. fp8 has no such instruction on CUDA cores:
/// it is widened to floats. Tiles of 64 x 64 in shared memory are each used 64 times; a thread computes 4 x 4 results,
/// 16 rows and columns apart.
template <class T, ScaledGemmScales kScales, bool kVectors>
static __global__ void __launch_bounds__(kScaledGemmThreads) scaled_gemm_packed_dot(float* c, ScaledGemmInput<T> in) {
  constexpr auto kPadded = ScaledGemmLayout::padded;
  constexpr int kResults = 4, kApart = 16;
  T* const a_tile = dynamic_shared<T>();
  T* const b_tile = a_tile + kPackedTile * kScaledGemmRow<kPadded>;
  const int column_tiles = (in.n + kPackedTile - 1) / kPackedTile;
  const int row0 = blockIdx.x / column_tiles * kPackedTile, column0 = blockIdx.x % column_tiles * kPackedTile;
  const int thread_row = threadIdx.x / kApart, thread_column = threadIdx.x % kApart;
  float sum[kResults][kResults] = {};
  ScaledGemmSum<T> partial[kResults][kResults] = {};
  const auto promote = [&](int block) {
    const float b_scale = scaled_gemm_b_scale<kScales>(in, block, column0);
#pragma unroll
    for (int r = 0; r < kResults; ++r) {
      const float scale = b_scale * scaled_gemm_a_scale<kScales>(in, block, row0 + thread_row + kApart * r);
#pragma unroll
      for (int s = 0; s < kResults; ++s) {
        sum[r][s] += scale * static_cast<float>(partial[r][s]);
        partial[r][s] = 0;
      }
    }
  };
  const int steps = (in.k + kScaledGemmDepth - 1) / kScaledGemmDepth;
  for (int step = 0; step < steps; ++step) {
    const int k0 = step * kScaledGemmDepth;
    scaled_gemm_copy<kPadded, false, kVectors, kPackedTile>(a_tile, in.a, in.m, in.k, row0, k0);
    scaled_gemm_copy<kPadded, false, kVectors, kPackedTile>(b_tile, in.b, in.n, in.k, column0, k0);
    __syncthreads();
#pragma unroll 1  // unrolled, e4m3 would take more registers than there are
    for (int packet = 0; packet < kScaledGemmDepth / 16; ++packet) {
      uint4 from_a[kResults], from_b[kResults];
#pragma unroll
      for (int r = 0; r < kResults; ++r) {
        const int a_place = scaled_gemm_place<kPadded>(thread_row + kApart * r, packet);
        const int b_place = scaled_gemm_place<kPadded>(thread_column + kApart * r, packet);
        from_a[r] = *reinterpret_cast<const uint4*>(a_tile + a_place);
        from_b[r] = *reinterpret_cast<const uint4*>(b_tile + b_place);
      }
      const auto multiply = [&](uint32_t uint4::* word) {
        decltype(scaled_gemm_four(0U, T())) b_four[kResults];
#pragma unroll
        for (int s = 0; s < kResults; ++s) b_four[s] = scaled_gemm_four(from_b[s].*word, T());
#pragma unroll
        for (int r = 0; r < kResults; ++r) {
          const auto a_four = scaled_gemm_four(from_a[r].*word, T());
#pragma unroll
          for (int s = 0; s < kResults; ++s) partial[r][s] = scaled_gemm_dot(a_four, b_four[s], partial[r][s]);
        }
      };
      multiply(&uint4::x), multiply(&uint4::y), multiply(&uint4::z), multiply(&uint4::w);
    }
    __syncthreads();  // nobody overwrites a tile that another still reads
    if (kScales == ScaledGemmScales::blocks && (step % kScaledGemmSteps == kScaledGemmSteps - 1 || step + 1 == steps))
      promote(step / kScaledGemmSteps);
  }
  if constexpr (kScales == ScaledGemmScales::tensor) promote(0);
#pragma unroll
  for (int r = 0; r < kResults; ++r) {
    const int row = row0 + thread_row + kApart * r;
#pragma unroll
    for (int s = 0; s < kResults; ++s) {
      const int column = column0 + thread_column + kApart * s;
      if (row < in.m && column < in.n) c[scaled_gemm_offset(row, in.n, column)] = sum[r][s];
    }
  }
}

/// Rung 2: tensor cores. One mma.sync multiplies 16 x 32 by 32 x 8 values of 8 bits, 4096 FMAs in one instruction of a
/// warp. A lane's register holds four neighbours of k, on either side, so that a fragment is loaded 4 bytes at a time.
/// Rows are 64 bytes apart: those of 8 groups of lanes meet in two groups of banks, 4 passes. The sum of a block of 128
/// of k starts from 0 in the tensor cores and is promoted: scaled and added to float32 on CUDA cores. With one scale
/// for each tensor it stays where it is for all of k.
template <class T, ScaledGemmScales kScales, bool kVectors>
static __global__ void __launch_bounds__(kScaledGemmThreads, 1) scaled_gemm_mma(float* c, ScaledGemmInput<T> in) {
  constexpr auto kPlain = ScaledGemmLayout::plain;
  T* const a_tile = dynamic_shared<T>();
  T* const b_tile = a_tile + kScaledGemmTileRows * kScaledGemmDepth;
  const auto [row0, column0] = scaled_gemm_corner(in.n);
  const int group = threadIdx.x % 32 / 4, in_group = threadIdx.x % 4;
  ScaledGemmResults<float> sum = {};
  ScaledGemmResults<ScaledGemmSum<T>> partial = {};
  ScaledGemmScaleRows scales;
  const int steps = (in.k + kScaledGemmDepth - 1) / kScaledGemmDepth;
  for (int step = 0; step < steps; ++step) {
    const int k0 = step * kScaledGemmDepth;
    scaled_gemm_copy<kPlain, false, kVectors, kScaledGemmTileRows>(a_tile, in.a, in.m, in.k, row0, k0);
    scaled_gemm_copy<kPlain, false, kVectors, kScaledGemmTileColumns>(b_tile, in.b, in.n, in.k, column0, k0);
    __syncthreads();
#pragma unroll
    for (int part = 0; part < kScaledGemmDepth / 32; ++part) {
      uint32_t b[kScaledGemmColumns][2];
#pragma unroll
      for (int j = 0; j < kScaledGemmColumns; ++j) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int row = scaled_gemm_warp_column() + 8 * j + group;
          const T* from = b_tile + scaled_gemm_place<kPlain>(row, part * 2 + r) + 4 * in_group;
          b[j][r] = *reinterpret_cast<const uint32_t*>(from);
        }
      }
#pragma unroll
      for (int i = 0; i < kScaledGemmRows; ++i) {
        uint32_t a[4];
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const int row = scaled_gemm_warp_row() + 16 * i + group + r % 2 * 8;
          const T* from = a_tile + scaled_gemm_place<kPlain>(row, part * 2 + r / 2) + 4 * in_group;
          a[r] = *reinterpret_cast<const uint32_t*>(from);
        }
        scaled_gemm_multiply_row<T>(partial[i], a, b);
      }
    }
    __syncthreads();
    if (kScales == ScaledGemmScales::blocks && (step % kScaledGemmSteps == kScaledGemmSteps - 1 || step + 1 == steps)) {
      scaled_gemm_load_scales<kScales>(scales, in, step / kScaledGemmSteps, row0, column0);
      scaled_gemm_promote(sum, partial, scales);
    }
  }
  if constexpr (kScales == ScaledGemmScales::tensor) {
    scaled_gemm_load_scales<kScales>(scales, in, 0, row0, column0);
    scaled_gemm_promote(sum, partial, scales);
  }
  scaled_gemm_store<kVectors>(c, in.m, in.n, row0, column0, sum);
}

/// Rung 3: ldmatrix. It moves 8 rows of 16 bytes and knows nothing of types: a lane gets the four neighbours of k that
/// mma wants, of A and of B alike, because k is innermost in both; 16-bit matrices of the usual layout have to be
/// transposed on the way. A request brings 512 bytes instead of 128, and the swizzle keeps its rows out of each other's
/// banks: 4 passes, the least there is.
template <class T, ScaledGemmScales kScales, bool kVectors>
static __global__ void __launch_bounds__(kScaledGemmThreads, 1) scaled_gemm_ldmatrix(float* c, ScaledGemmInput<T> in) {
  constexpr auto kSwizzled = ScaledGemmLayout::swizzled;
  T* const a_tile = dynamic_shared<T>();
  T* const b_tile = a_tile + kScaledGemmTileRows * kScaledGemmDepth;
  const auto [row0, column0] = scaled_gemm_corner(in.n);
  ScaledGemmResults<float> sum = {};
  ScaledGemmResults<ScaledGemmSum<T>> partial = {};
  ScaledGemmScaleRows scales;
  const int steps = (in.k + kScaledGemmDepth - 1) / kScaledGemmDepth;
  for (int step = 0; step < steps; ++step) {
    const int k0 = step * kScaledGemmDepth;
    scaled_gemm_copy<kSwizzled, false, kVectors, kScaledGemmTileRows>(a_tile, in.a, in.m, in.k, row0, k0);
    scaled_gemm_copy<kSwizzled, false, kVectors, kScaledGemmTileColumns>(b_tile, in.b, in.n, in.k, column0, k0);
    __syncthreads();
    scaled_gemm_multiply<T>(partial, a_tile, b_tile);
    __syncthreads();
    if (kScales == ScaledGemmScales::blocks && (step % kScaledGemmSteps == kScaledGemmSteps - 1 || step + 1 == steps)) {
      scaled_gemm_load_scales<kScales>(scales, in, step / kScaledGemmSteps, row0, column0);
      scaled_gemm_promote(sum, partial, scales);
    }
  }
  if constexpr (kScales == ScaledGemmScales::tensor) {
    scaled_gemm_load_scales<kScales>(scales, in, 0, row0, column0);
    scaled_gemm_promote(sum, partial, scales);
  }
  scaled_gemm_store<kVectors>(c, in.m, in.n, row0, column0, sum);
}

/// Tiles of A and B in shared memory at a time; all but one of them are on their way.
inline constexpr int kScaledGemmStages = 4;

/// Rung 4: cp.async. Tiles no longer pass through registers, and three of four are on their way while one is
/// multiplied. One barrier for each step: behind it this step's tile is there for everybody, and nobody reads the last
/// one's any more, whose place the next copy may take. Scales take no part in that: they are loaded when their block of
/// k begins and used when it ends, 32 mma of a warp later.
template <class T, ScaledGemmScales kScales, bool kVectors>
static __global__ void __launch_bounds__(kScaledGemmThreads, 1) scaled_gemm_cp_async(float* c, ScaledGemmInput<T> in) {
  constexpr auto kSwizzled = ScaledGemmLayout::swizzled;
  constexpr int kBTile = kScaledGemmTileRows * kScaledGemmDepth;
  T* const stages = dynamic_shared<T>();
  const auto [row0, column0] = scaled_gemm_corner(in.n);
  const int steps = (in.k + kScaledGemmDepth - 1) / kScaledGemmDepth;
  const auto start = [&](int step) {
    T* const a_tile = stages + step % kScaledGemmStages * kScaledGemmStage;
    const int k0 = step * kScaledGemmDepth;
    if (step < steps) {
      scaled_gemm_copy<kSwizzled, true, kVectors, kScaledGemmTileRows>(a_tile, in.a, in.m, in.k, row0, k0);
      scaled_gemm_copy<kSwizzled, true, kVectors, kScaledGemmTileColumns>(a_tile + kBTile, in.b, in.n, in.k, column0,
                                                                          k0);
    }
    cp_async_commit();  // of nothing at the end, so that the wait below counts right
  };
  for (int step = 0; step < kScaledGemmStages - 1; ++step) start(step);

  ScaledGemmResults<float> sum = {};
  ScaledGemmResults<ScaledGemmSum<T>> partial = {};
  ScaledGemmScaleRows scales;
  for (int step = 0; step < steps; ++step) {
    if (kScales == ScaledGemmScales::blocks && step % kScaledGemmSteps == 0)
      scaled_gemm_load_scales<kScales>(scales, in, step / kScaledGemmSteps, row0, column0);
    cp_async_wait<kScaledGemmStages - 2>();
    __syncthreads();
    start(step + kScaledGemmStages - 1);
    const T* const a_tile = stages + step % kScaledGemmStages * kScaledGemmStage;
    scaled_gemm_multiply<T>(partial, a_tile, a_tile + kBTile);
    if (kScales == ScaledGemmScales::blocks && (step % kScaledGemmSteps == kScaledGemmSteps - 1 || step + 1 == steps))
      scaled_gemm_promote(sum, partial, scales);
  }
  if constexpr (kScales == ScaledGemmScales::tensor) {
    scaled_gemm_load_scales<kScales>(scales, in, 0, row0, column0);
    scaled_gemm_promote(sum, partial, scales);
  }
  scaled_gemm_store<kVectors>(c, in.m, in.n, row0, column0, sum);
}

}  // namespace tenfold::kernels
