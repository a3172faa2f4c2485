// Rungs 5 to 7 of the ladder of scaled_gemm.cuh, for compute capability 9.0a alone: a file of its own because nvcc
// compiles it for nothing else. The microscope compiles it as well.

#include "scaled_gemm_sm90.h"

#include "kernels/hgemm/hgemm_tile_order.h"
#include "kernels/launch_cluster.cuh"
#include "kernels/ptx_cluster.cuh"
#include "ptx_wgmma_8bit.cuh"
#include "scaled_gemm_tile.cuh"
#include "scaled_gemm_tma.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace tenfold::kernels {

using ScaledHopperInput = ScaledGemmInput<__nv_fp8_e4m3>;
/// A thread's results: of each 8 columns of the tile two neighbours, in two rows 8 apart.
using ScaledHopperResults = float[kScaledHopperColumns / 8][4];

/// The block's stages, which begin where 1024 divides: the swizzle looks at addresses.
__device__ inline unsigned char* scaled_hopper_stages() {
  unsigned char* const begin = dynamic_shared<unsigned char>();
  return begin + (1024 - shared_address(begin) % 1024) % 1024;
}

/// Where a block is on its way: a block of k of one of its tiles of C, and the stage that holds the tiles of A and B
/// for it. Blocks of k follow each other, and after a tile's last one comes the first one of the block's next tile.
struct ScaledHopperStep {
  int tile = 0, row = 0, column = 0;  ///< of C, and where it begins
  int block = 0;                      ///< of k
  int stage = 0;
  uint32_t parity = 0;  ///< of the stage's use
};

/// The way of this block over C: in clusters of kCluster blocks, one above the other, which take their steps together.
template <int kCluster>
struct ScaledHopperWay {
  int row_tiles, column_tiles, blocks;  ///< rows of a cluster's tiles

  __device__ explicit ScaledHopperWay(const ScaledHopperInput& in)
      : row_tiles((in.m + kCluster * kScaledHopperRows - 1) / (kCluster * kScaledHopperRows)),
        column_tiles((in.n + kScaledHopperColumns - 1) / kScaledHopperColumns),
        blocks((in.k + kScaledHopperDepth - 1) / kScaledHopperDepth) {}

  __device__ __forceinline__ ScaledHopperStep first() const {
    ScaledHopperStep step;
    go_to_tile(step, static_cast<int>(blockIdx.x) / kCluster);
    return step;
  }
  __device__ __forceinline__ void next(ScaledHopperStep& step) const {
    if (++step.block == blocks) {
      step.block = 0;
      go_to_tile(step, step.tile + static_cast<int>(gridDim.x) / kCluster);
    }
    if (++step.stage == kScaledHopperStages) step.stage = 0, step.parity ^= 1;
  }
  __device__ __forceinline__ bool has(const ScaledHopperStep& step) const {
    return step.tile < row_tiles * column_tiles;
  }
  /// All that the block has before it.
  __device__ __forceinline__ int64_t steps() const {
    const int clusters = static_cast<int>(gridDim.x) / kCluster, first = static_cast<int>(blockIdx.x) / kCluster;
    return (int64_t{(row_tiles * column_tiles - first - 1) / clusters} + 1) * blocks;
  }
  __device__ __forceinline__ bool ends_tile(const ScaledHopperStep& step) const { return step.block + 1 == blocks; }

 private:
  __device__ __forceinline__ void go_to_tile(ScaledHopperStep& step, int tile) const {
    step.tile = tile;
    if (!has(step)) return;  // beyond the last one hgemm_tile would divide by 0
    const auto [row, column] = hgemm_tile(tile, row_tiles, column_tiles);
    const int rank = static_cast<int>(blockIdx.x) % kCluster;
    step.row = (row * kCluster + rank) * kScaledHopperRows, step.column = column * kScaledHopperColumns;
  }
};

/// A warpgroup starts the products of its 64 rows of A with B for one block of k; they begin from 0.
__device__ __forceinline__ void scaled_hopper_multiply(ScaledHopperResults& partial, uint32_t stage, int group) {
  wgmma_fence();
#pragma unroll
  for (int part = 0; part < kScaledHopperDepth / 32; ++part) {
    wgmma_m64n128k32_e4m3(partial, scaled_hopper_descriptor_a(stage, group, part),
                          scaled_hopper_descriptor_b(stage + kScaledHopperTileBytes, part), part != 0);
  }
  wgmma_commit();
}

/// The scales of a block of k: of the thread's two rows of A, and of all columns of the tile. Not multiplied yet, so
/// that nobody waits for the loads before the sums are there.
struct ScaledHopperScales {
  float a[2], b;
};
template <ScaledGemmScales kScales>
__device__ __forceinline__ ScaledHopperScales scaled_hopper_scales(const ScaledHopperInput& in,
                                                                   const ScaledHopperStep& step, int thread_row) {
  const int row = step.row + thread_row;
  return {{scaled_gemm_a_scale<kScales>(in, step.block, row), scaled_gemm_a_scale<kScales>(in, step.block, row + 8)},
          scaled_gemm_b_scale<kScales>(in, step.block, step.column)};
}

/// Promotes the sums of a block of k: sum += scale * partial in float32, on CUDA cores.
__device__ __forceinline__ void scaled_hopper_promote(ScaledHopperResults& sum, const ScaledHopperResults& partial,
                                                      const ScaledHopperScales& scales) {
  const float scale[2] = {scales.a[0] * scales.b, scales.a[1] * scales.b};
#pragma unroll
  for (int j = 0; j < kScaledHopperColumns / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) sum[j][e] += scale[e / 2] * partial[j][e];
  }
}

/// Writes a thread's results of a tile, two neighbours at a time, and sets them back to 0.
__device__ __forceinline__ void scaled_hopper_store(float* c, const ScaledHopperInput& in, const ScaledHopperStep& step,
                                                    int thread_row, ScaledHopperResults& sum) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = step.row + thread_row + 8 * half, first = step.column + static_cast<int>(threadIdx.x % 4 * 2);
#pragma unroll
    for (int j = 0; j < kScaledHopperColumns / 8; ++j) {
      const int column = first + 8 * j;  // even, as n is
      const float2 two = {sum[j][2 * half], sum[j][2 * half + 1]};
      if (row < in.m && column < in.n) *reinterpret_cast<float2*>(c + scaled_gemm_offset(row, in.n, column)) = two;
      sum[j][2 * half] = sum[j][2 * half + 1] = 0;
    }
  }
}

/// One thread starts the copies of a step's tiles of A and B, of which `full` is told. Blocks of a cluster need the
/// same tile of B: each copies its share of it to all.
template <int kCluster>
__device__ inline void scaled_hopper_load(unsigned char* tiles, uint64_t* full, const CUtensorMap* a_map,
                                          const CUtensorMap* b_map, const ScaledHopperStep& step) {
  const int k = step.block * kScaledHopperDepth;
  mbarrier_arrive_expect(full, kScaledHopperStageBytes);
  tma_load(tiles, a_map, full, k, step.row);
  unsigned char* const b_tile = tiles + kScaledHopperTileBytes;
  if constexpr (kCluster == 1) {
    tma_load(b_tile, b_map, full, k, step.column);
  } else {
    constexpr int kShare = kScaledHopperColumns / kCluster;
    constexpr uint16_t kAll = (1 << kCluster) - 1;
    const int first = static_cast<int>(cluster_rank()) * kShare;
    tma_load_multicast(b_tile + first * kScaledHopperDepth, b_map, full, k, step.column + first, kAll);
  }
}

/// A warp is done with a stage: it tells all blocks that fill it.
template <int kCluster>
__device__ __forceinline__ void scaled_hopper_release(uint64_t* empty) {
  const uint32_t lane = threadIdx.x % 32;
  if constexpr (kCluster == 1) {
    if (lane == 0) mbarrier_arrive(empty);
  } else {
    const uint32_t barrier = cluster_address(empty, lane % kCluster);
    if (lane < kCluster) mbarrier_arrive_remote(barrier);
  }
}

/// What a warpgroup that multiplies does. `stages`: the shared address of the first one.
template <ScaledGemmScales kScales, bool kOverlapped, int kCluster>
__device__ __forceinline__ void scaled_hopper_consume(float* c, const ScaledHopperInput& in, uint32_t stages,
                                                      uint64_t* full, uint64_t* empty) {
  const ScaledHopperWay<kCluster> way(in);
  ScaledHopperStep step = way.first();
  const int group = static_cast<int>(threadIdx.x) / 128 - 1;
  const int thread_row = (static_cast<int>(threadIdx.x) / 32 - 4) * 16 + static_cast<int>(threadIdx.x % 32) / 4;
  const auto start = [&](ScaledHopperResults& partial, const ScaledHopperStep& of) {
    mbarrier_wait(&full[of.stage], of.parity);
    scaled_hopper_multiply(partial, stages + of.stage * kScaledHopperStageBytes, group);
  };
  const auto finish = [&](ScaledHopperResults& sum, const ScaledHopperResults& partial, const ScaledHopperStep& of,
                          const ScaledHopperScales& scales) {
    scaled_hopper_release<kCluster>(&empty[of.stage]);
    scaled_hopper_promote(sum, partial, scales);
    if (way.ends_tile(of)) scaled_hopper_store(c, in, of, thread_row, sum);
  };
  ScaledHopperResults sum = {};
  if constexpr (!kOverlapped) {
    ScaledHopperResults partial;
    for (; way.has(step); way.next(step)) {
      const ScaledHopperScales scales = scaled_hopper_scales<kScales>(in, step, thread_row);
      start(partial, step);
      wgmma_wait<0>();
      wgmma_settle(partial);
      finish(sum, partial, step, scales);
    }
  } else {
    // Two sets of everything, which change places: registers cannot be chosen by an index. No product is started under
    // a condition, or ptxas would wait for it where the ways meet again; so the last one or two come behind the loop.
    ScaledHopperResults first, second;
    ScaledHopperScales first_scales, second_scales;
    const auto begin = [&](ScaledHopperResults& partial, ScaledHopperScales& scales) {
      scales = scaled_hopper_scales<kScales>(in, step, thread_row);
      start(partial, step);
    };
    const auto overlap = [&](ScaledHopperResults& partial, const ScaledHopperScales& scales,
                             ScaledHopperResults& next_partial, ScaledHopperScales& next_scales) {
      const ScaledHopperStep now = step;
      way.next(step);
      begin(next_partial, next_scales);
      wgmma_wait<1>();  // the product of this step is there, the next one runs on
      wgmma_settle(partial);
      finish(sum, partial, now, scales);
    };
    const auto end = [&](ScaledHopperResults& partial, const ScaledHopperScales& scales) {
      wgmma_wait<0>();
      wgmma_settle(partial);
      finish(sum, partial, step, scales);
    };
    int64_t left = way.steps();
    begin(first, first_scales);
    for (; left > 2; left -= 2) {
      overlap(first, first_scales, second, second_scales);
      overlap(second, second_scales, first, first_scales);
    }
    if (left == 2) {
      overlap(first, first_scales, second, second_scales);
      end(second, second_scales);
    } else {
      end(first, first_scales);
    }
  }
}

/// Rung 5: fp8 at its own speed, which Hopper has in wgmma alone. 64 x 32 by 32 x 128 codes are one instruction of a
/// warpgroup, straight from shared memory. TMA fills it, one box for a tile and 128 of k: codes are bytes to it. As in
/// hgemm's rung 7, one warpgroup only starts copies, blocks walk over tiles of C, and two warpgroups multiply, 64 rows
/// each. They promote after every block of k, four products, with one scale for each tensor as well: tensor cores keep
/// fewer bits than float32. While a warpgroup promotes it has no product running; whether the other one has, nobody
/// says.
///
/// Rung 6, kOverlapped: a warpgroup starts the product of the next block of k before it promotes the sums of this one,
/// in a second set of registers; and that of the next tile before it stores the results of this one.
///
/// Rung 7, kCluster = 2: two blocks, one above the other in C, need the same tile of B, and each copies one half of it
/// to both, as in hgemm's rung 8. L2 delivers 24 KiB a step for a block and not 32. A stage is free when the warps of
/// both blocks have said so to both.
template <ScaledGemmScales kScales, bool kOverlapped, int kCluster>
static __global__ void __launch_bounds__(384, 1)
    scaled_gemm_wgmma(float* c, const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
                      ScaledHopperInput in) {
  __shared__ uint64_t full[kScaledHopperStages], empty[kScaledHopperStages];
  unsigned char* const stages = scaled_hopper_stages();
  if (threadIdx.x == 0) {
    tma_prefetch(&a_map);
    tma_prefetch(&b_map);
    for (int stage = 0; stage < kScaledHopperStages; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], 8 * kCluster);  // the warps that multiply
    }
    mbarrier_init_fence();
  }
  if constexpr (kCluster == 1) {
    __syncthreads();
  } else {
    cluster_arrive();
    cluster_wait();  // both blocks have begun, and their barriers are there
  }

  if (threadIdx.x / 128 == 0) {
    give_registers<24>();
    const ScaledHopperWay<kCluster> way(in);
    ScaledHopperStep step = way.first();
    for (; threadIdx.x == 0 && way.has(step); way.next(step)) {
      mbarrier_wait(&empty[step.stage], step.parity ^ 1);
      scaled_hopper_load<kCluster>(stages + step.stage * kScaledHopperStageBytes, &full[step.stage], &a_map, &b_map,
                                   step);
    }
  } else {
    take_registers<240>();
    scaled_hopper_consume<kScales, kOverlapped, kCluster>(c, in, shared_address(stages), full, empty);
  }
  if constexpr (kCluster > 1) {
    cluster_arrive();
    cluster_wait();  // a block must not end while the other may still arrive at its barriers
  }
}

/// The map of A or B, for TMA, to which e4m3 is bytes.
static CUtensorMap scaled_hopper_map(const __nv_fp8_e4m3* data, const HopperTensor& tensor) {
  const cuuint64_t size[] = {tensor.size[0], tensor.size[1]}, strides[] = {tensor.row_bytes};
  const cuuint32_t box[] = {tensor.box[0], tensor.box[1]}, steps[] = {1, 1};
  CUtensorMap map;
  const CUresult result =
      tensor_map_encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, const_cast<__nv_fp8_e4m3*>(data), size, strides, box,
                           steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                           CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw std::runtime_error("scaled_gemm: the driver refuses a tensor map, error " + std::to_string(result));
  return map;
}

template <class AnyStream>
void scaled_gemm_hopper(AnyStream stream, float* c, const __nv_fp8_e4m3* a, const __nv_fp8_e4m3* b,
                        const float* a_scales, const float* b_scales, int64_t m, int64_t n, int64_t k,
                        ScaledGemmScales scales, int rung) {
  const int64_t cluster = rung == 7 ? kScaledHopperCluster : 1, rows = cluster * kScaledHopperRows;
  const int64_t tiles = (m + rows - 1) / rows * ((n + kScaledHopperColumns - 1) / kScaledHopperColumns);
  if (tiles > 1 << 30)
    throw std::invalid_argument("scaled_gemm: C has more tiles than rung " + std::to_string(rung) + " can count");
  const int64_t clusters = std::min<int64_t>(tiles, std::max<int64_t>(1, multiprocessors(stream) / cluster));
  const dim3 grid(static_cast<unsigned>(clusters * cluster)), block(384);
  const ScaledHopperInput in{a, b, a_scales, b_scales, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k)};
  const CUtensorMap a_map = scaled_hopper_map(a, scaled_hopper_tensor(m, k, kScaledHopperRows)),
                    b_map = scaled_hopper_map(b, scaled_hopper_tensor(n, k, kScaledHopperColumns / cluster));
  const auto start_scales = [&](auto which) {
    constexpr ScaledGemmScales kScales = decltype(which)::value;
    if (rung == 5)
      launch(stream, grid, block, kScaledHopperSharedBytes, scaled_gemm_wgmma<kScales, false, 1>, c, a_map, b_map, in);
    else if (rung == 6)
      launch(stream, grid, block, kScaledHopperSharedBytes, scaled_gemm_wgmma<kScales, true, 1>, c, a_map, b_map, in);
    else
      launch_cluster(stream, grid, block, kScaledHopperCluster, kScaledHopperSharedBytes,
                     scaled_gemm_wgmma<kScales, true, kScaledHopperCluster>, c, a_map, b_map, in);
  };
  if (scales == ScaledGemmScales::tensor)
    start_scales(std::integral_constant<ScaledGemmScales, ScaledGemmScales::tensor>());
  else
    start_scales(std::integral_constant<ScaledGemmScales, ScaledGemmScales::blocks>());
}

template void scaled_gemm_hopper(Stream, float*, const __nv_fp8_e4m3*, const __nv_fp8_e4m3*, const float*, const float*,
                                 int64_t, int64_t, int64_t, ScaledGemmScales, int);

}  // namespace tenfold::kernels
