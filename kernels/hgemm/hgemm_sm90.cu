// Rungs 5 to 9 of the ladder of hgemm.cuh, for compute capability 9.0a alone: a file of its own because nvcc compiles
// it for nothing else. The microscope compiles it as well.

#include "hgemm_sm90.h"
#include "hgemm_tile.cuh"
#include "hgemm_tma.h"
#include "kernels/launch_cluster.cuh"
#include "kernels/ptx_cluster.cuh"

#include <algorithm>

namespace tenfold::kernels {

/// The block's tiles of A and B, which begin where 1024 divides: the swizzle looks at addresses.
__device__ inline unsigned char* hopper_stages() {
  unsigned char* const begin = dynamic_shared<unsigned char>();
  return begin + (1024 - shared_address(begin) % 1024) % 1024;
}

/// One thread starts the copies of a stage's tiles of A and B, step `step` of the depth, of which `full` is told.
__device__ inline void hopper_load(unsigned char* stage, uint64_t* full, const CUtensorMap* a_map,
                                   const CUtensorMap* b_map, HgemmTile tile, int step) {
  mbarrier_arrive_expect(full, kHopperBytesOfA + kHopperBytesOfB);
  tma_load(stage, a_map, full, step * kHopperDepth, tile.row * kHopperRows);
#pragma unroll
  for (int box = 0; box < kHopperColumns / kHopperBoxWidth; ++box) {
    tma_load(stage + kHopperBytesOfA + box * kHopperBoxBytesOfB, b_map, full,
             tile.column * kHopperColumns + box * kHopperBoxWidth, step * kHopperDepth);
  }
}

/// A warpgroup starts the products of its 64 rows with a stage's tiles, as a group of its own.
template <class T>
__device__ __forceinline__ void hopper_multiply(float (&sum)[32][4], uint32_t stage, int group, bool add) {
  wgmma_fence();
#pragma unroll
  for (int part = 0; part < kHopperDepth / 16; ++part) {
    wgmma_m64n256k16<T>(sum, hopper_descriptor_a(stage, group, part),
                        hopper_descriptor_b(stage + kHopperBytesOfA, part), add || part != 0);
  }
  wgmma_commit();
}

/// Rung 5: what Hopper has for this. TMA copies a whole box of A or B at the word of one thread, which neither computes
/// addresses nor holds data in registers, and tells a barrier in shared memory of every byte that has landed. wgmma
/// multiplies 64 x 16 by 16 x 256 elements straight from shared memory: no fragments, no ldmatrix. Two warpgroups
/// multiply, 64 rows of C each. Everybody waits for the copies, and the copies wait for everybody.
template <class T>
static __global__ void __launch_bounds__(256, 1)
    hgemm_wgmma_waiting(T* c, const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
                        int m, int n, int k) {
  __shared__ uint64_t full;
  unsigned char* const stage = hopper_stages();
  const HgemmTile tile = hgemm_tile(static_cast<int>(blockIdx.x), (m + kHopperRows - 1) / kHopperRows,
                                    (n + kHopperColumns - 1) / kHopperColumns);
  const int steps = (k + kHopperDepth - 1) / kHopperDepth;
  if (threadIdx.x == 0) {
    tma_prefetch(&a_map);
    tma_prefetch(&b_map);
    mbarrier_init(&full, 1);
    mbarrier_init_fence();
  }
  __syncthreads();

  const int group = threadIdx.x / 128, warp = threadIdx.x % 128 / 32;
  float sum[1][kHopperColumns / 8][4];
  for (int step = 0; step < steps; ++step) {
    if (threadIdx.x == 0) hopper_load(stage, &full, &a_map, &b_map, tile, step);
    mbarrier_wait(&full, step % 2);
    hopper_multiply<T>(sum[0], shared_address(stage), group, step != 0);
    wgmma_wait<0>();
    wgmma_settle(sum[0]);
    __syncthreads();  // both have read the tiles, which the next copies overwrite
  }
  hgemm_store<true>(c, m, n, tile.row * kHopperRows + group * 64 + warp * 16, tile.column * kHopperColumns, sum);
}

/// Rung 6: the work is split by kind. A third warpgroup only starts copies, up to three tiles ahead, and gives its
/// registers to the other two, which only multiply. They wait for tiles that are mostly there, and say when one is
/// read.
///
/// Rung 7: the same kernel with as many blocks as multiprocessors, each of which walks over tiles of C: the copies for
/// the next tile are on their way while the results of this one are stored.
template <class T>
static __global__ void __launch_bounds__(384, 1)
    hgemm_wgmma(T* c, const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, int m,
                int n, int k) {
  constexpr uint32_t kStage = kHopperBytesOfA + kHopperBytesOfB;
  __shared__ uint64_t full[kHopperStages], empty[kHopperStages];
  unsigned char* const stages = hopper_stages();
  const int row_tiles = (m + kHopperRows - 1) / kHopperRows, column_tiles = (n + kHopperColumns - 1) / kHopperColumns;
  const int steps = (k + kHopperDepth - 1) / kHopperDepth;
  if (threadIdx.x == 0) {
    tma_prefetch(&a_map);
    tma_prefetch(&b_map);
    for (int stage = 0; stage < kHopperStages; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], 8);  // the warps that multiply
    }
    mbarrier_init_fence();
  }
  __syncthreads();

  int stage = 0;
  uint32_t parity = 0;  // of the stage's current use
  const auto next_stage = [&] {
    if (++stage == kHopperStages) stage = 0, parity ^= 1;
  };
  const int warpgroup = threadIdx.x / 128;
  if (warpgroup == 0) {
    give_registers<40>();
    if (threadIdx.x != 0) return;
    for (int tile = blockIdx.x; tile < row_tiles * column_tiles; tile += gridDim.x) {
      for (int step = 0; step < steps; ++step, next_stage()) {
        mbarrier_wait(&empty[stage], parity ^ 1);
        hopper_load(stages + stage * kStage, &full[stage], &a_map, &b_map, hgemm_tile(tile, row_tiles, column_tiles),
                    step);
      }
    }
    return;
  }

  take_registers<232>();
  const int group = warpgroup - 1, warp = threadIdx.x % 128 / 32;
  for (int tile = blockIdx.x; tile < row_tiles * column_tiles; tile += gridDim.x) {
    const auto [row_tile, column_tile] = hgemm_tile(tile, row_tiles, column_tiles);
    float sum[1][kHopperColumns / 8][4];
    int last = 0;
    for (int step = 0; step < steps; ++step) {
      mbarrier_wait(&full[stage], parity);
      hopper_multiply<T>(sum[0], shared_address(stages) + stage * kStage, group, step != 0);
      wgmma_wait<1>();  // the step before is done with its stage
      if (step != 0 && threadIdx.x % 32 == 0) mbarrier_arrive(&empty[last]);
      last = stage;
      next_stage();
    }
    wgmma_wait<0>();
    wgmma_settle(sum[0]);
    if (threadIdx.x % 32 == 0) mbarrier_arrive(&empty[last]);
    hgemm_store<true>(c, m, n, row_tile * kHopperRows + group * 64 + warp * 16, column_tile * kHopperColumns, sum);
  }
}

/// The same for a block of a cluster: all of its tile of A, and of B's, which both need, one half for both. So two
/// threads, one of each block, fill the stage that `full` is told of.
__device__ inline void hopper_load_shared(unsigned char* stage, uint64_t* full, const CUtensorMap* a_map,
                                          const CUtensorMap* b_map, HgemmTile tile, int rank, int step) {
  constexpr int kBoxes = kHopperColumns / kHopperBoxWidth / kHopperCluster;
  constexpr uint16_t kAll = (1 << kHopperCluster) - 1;
  mbarrier_arrive_expect(full, kHopperBytesOfA + kHopperBytesOfB);
  tma_load(stage, a_map, full, step * kHopperDepth, tile.row * kHopperRows);
#pragma unroll
  for (int i = 0; i < kBoxes; ++i) {
    const int box = rank * kBoxes + i;
    tma_load_multicast(stage + kHopperBytesOfA + box * kHopperBoxBytesOfB, b_map, full,
                       tile.column * kHopperColumns + box * kHopperBoxWidth, step * kHopperDepth, kAll);
  }
}

/// A warp writes its 16 x 256 sums to C from (row, column) on, 64 columns at a time: it leaves them in shared memory,
/// where TMA expects them, and one lane starts the store. A lane's two neighbours are a word; in the 128-byte swizzle
/// the words of 8 rows lie in 32 banks, so that nobody exchanges anything first.
template <class T>
__device__ __forceinline__ void hopper_store(unsigned char* rooms, const CUtensorMap* c_map, int row, int column,
                                             const float (&sum)[32][4]) {
  constexpr int kTiles = kHopperBoxWidth / 8;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int box = 0; box < kHopperColumns / kHopperBoxWidth; ++box) {
    unsigned char* const room = rooms + box % kHopperRooms * kHopperRoomBytes;
    if (lane == 0) tma_store_wait_read<kHopperRooms - 1>();  // the room's last store has read it
    __syncwarp();
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int offset = (8 * half + lane / 4) * 128 + j * 16 + lane % 4 * 4;
        const float* const from = &sum[box * kTiles + j][2 * half];
        *reinterpret_cast<uint32_t*>(room + swizzle_128(offset)) = register_of<T>(from[0], from[1]);
      }
    }
    fence_async_proxy();
    __syncwarp();
    if (lane == 0) {
      tma_store(c_map, room, column + box * kHopperBoxWidth, row);
      tma_store_commit();
    }
  }
}

/// Rung 8: blocks in clusters of two, one above the other in C, that need the same tile of B. Each copies one half of
/// it to both (multicast), so that L2 delivers 32 KiB a step for a block and not 48. A stage is filled by both
/// producers and read in both blocks: its bytes are counted in each, and it is free when the warps of both have said so
/// to both. Below an odd number of rows of tiles, the last block multiplies zeros.
///
/// Rung 9: results leave by TMA (kByTma). A warp only leaves them in shared memory and multiplies on, while they are on
/// their way to C.
template <class T, bool kByTma>
static __global__ void __launch_bounds__(384, 1)
    hgemm_cluster(T* c, const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
                  const __grid_constant__ CUtensorMap c_map, int m, int n, int k) {
  constexpr uint32_t kStage = kHopperBytesOfA + kHopperBytesOfB;
  __shared__ uint64_t full[kHopperStages], empty[kHopperStages];
  unsigned char* const stages = hopper_stages();
  constexpr int kRows = kHopperCluster * kHopperRows;  // of a cluster's tile of C
  const int row_tiles = (m + kRows - 1) / kRows, column_tiles = (n + kHopperColumns - 1) / kHopperColumns;
  const int steps = (k + kHopperDepth - 1) / kHopperDepth, rank = static_cast<int>(cluster_rank());
  const int first = blockIdx.x / kHopperCluster, clusters = gridDim.x / kHopperCluster;
  const auto tile_of_block = [&](int tile) -> HgemmTile {
    const auto [row, column] = hgemm_tile(tile, row_tiles, column_tiles);
    return {row * kHopperCluster + rank, column};
  };
  if (threadIdx.x == 0) {
    tma_prefetch(&a_map);
    tma_prefetch(&b_map);
    if constexpr (kByTma) tma_prefetch(&c_map);
    for (int stage = 0; stage < kHopperStages; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], 8 * kHopperCluster);  // the warps that multiply, of both blocks
    }
    mbarrier_init_fence();
  }
  cluster_arrive();
  cluster_wait();  // both blocks have begun, and their barriers are there

  int stage = 0;
  uint32_t parity = 0;  // of the stage's current use
  const auto next_stage = [&] {
    if (++stage == kHopperStages) stage = 0, parity ^= 1;
  };
  const int warpgroup = threadIdx.x / 128;
  if (warpgroup == 0) {
    give_registers<40>();
    for (int tile = first; threadIdx.x == 0 && tile < row_tiles * column_tiles; tile += clusters) {
      for (int step = 0; step < steps; ++step, next_stage()) {
        mbarrier_wait(&empty[stage], parity ^ 1);
        hopper_load_shared(stages + stage * kStage, &full[stage], &a_map, &b_map, tile_of_block(tile), rank, step);
      }
    }
  } else {
    take_registers<232>();
    const int group = warpgroup - 1, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    const auto free_stage = [&](int read) {  // a lane for each block
      const uint32_t barrier = cluster_address(&empty[read], lane % kHopperCluster);
      if (lane < kHopperCluster) mbarrier_arrive_remote(barrier);
    };
    for (int tile = first; tile < row_tiles * column_tiles; tile += clusters) {
      const auto [row_tile, column_tile] = tile_of_block(tile);
      float sum[1][kHopperColumns / 8][4];
      int last = 0;
      for (int step = 0; step < steps; ++step) {
        mbarrier_wait(&full[stage], parity);
        hopper_multiply<T>(sum[0], shared_address(stages) + stage * kStage, group, step != 0);
        wgmma_wait<1>();  // the step before is done with its stage
        if (step != 0) free_stage(last);
        last = stage;
        next_stage();
      }
      wgmma_wait<0>();
      wgmma_settle(sum[0]);
      free_stage(last);
      const int row = row_tile * kHopperRows + group * 64 + warp * 16, column = column_tile * kHopperColumns;
      if constexpr (kByTma) {
        unsigned char* const rooms = stages + kHopperStages * kStage;
        hopper_store<T>(rooms + (group * 4 + warp) * kHopperRooms * kHopperRoomBytes, &c_map, row, column, sum[0]);
      } else {
        hgemm_store<true>(c, m, n, row, column, sum);
      }
    }
    if constexpr (kByTma) {
      if (lane == 0) tma_store_wait_read<0>();  // shared memory must last until then
    }
  }
  cluster_arrive();
  cluster_wait();  // a block must not end while the other may still arrive at its barriers
}

/// The map of a tensor, for TMA.
template <class T>
static CUtensorMap hopper_map(const T* data, const HopperTensor& tensor) {
  constexpr CUtensorMapDataType kType =
      std::is_same_v<T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const cuuint64_t size[] = {tensor.size[0], tensor.size[1]}, strides[] = {tensor.row_bytes};
  const cuuint32_t box[] = {tensor.box[0], tensor.box[1]}, steps[] = {1, 1};
  CUtensorMap map;
  const CUresult result = tensor_map_encoder()(&map, kType, 2, const_cast<T*>(data), size, strides, box, steps,
                                               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw std::runtime_error("hgemm: the driver refuses a tensor map, error " + std::to_string(result));
  return map;
}

/// Rungs 8 and 9.
template <class T, class AnyStream>
static void hgemm_clusters(AnyStream stream, T* c, const T* a, const T* b, int64_t m, int64_t n, int64_t k, int rung) {
  constexpr int64_t kRows = kHopperCluster * kHopperRows;
  const int64_t tiles = (m + kRows - 1) / kRows * ((n + kHopperColumns - 1) / kHopperColumns);
  const int64_t clusters = std::min<int64_t>(tiles, std::max(1, multiprocessors(stream) / kHopperCluster));
  const size_t rooms = rung == 9 ? 8 * kHopperRooms * kHopperRoomBytes : 0;
  launch_cluster(stream, dim3(static_cast<unsigned>(clusters * kHopperCluster)), dim3(384), kHopperCluster,
                 kHopperStages * (kHopperBytesOfA + kHopperBytesOfB) + rooms + 1024,
                 rung == 9 ? hgemm_cluster<T, true> : hgemm_cluster<T, false>, c, hopper_map(a, hopper_tensor_a(m, k)),
                 hopper_map(b, hopper_tensor_b(k, n)), hopper_map(c, hopper_tensor_c(m, n)), static_cast<int>(m),
                 static_cast<int>(n), static_cast<int>(k));
}

template <class T, class AnyStream>
void hgemm_hopper(AnyStream stream, T* c, const T* a, const T* b, int64_t m, int64_t n, int64_t k, int rung) {
  const int64_t tiles = (m + kHopperRows - 1) / kHopperRows * ((n + kHopperColumns - 1) / kHopperColumns);
  if (tiles > 1 << 30)
    throw std::invalid_argument("hgemm: C has more tiles than rung " + std::to_string(rung) + " can count");
  if (rung >= 8) return hgemm_clusters(stream, c, a, b, m, n, k, rung);
  const int64_t blocks = rung == 7 ? std::min<int64_t>(tiles, multiprocessors(stream)) : tiles;
  const size_t stages = rung == 5 ? 1 : kHopperStages;
  launch(stream, dim3(static_cast<unsigned>(blocks)), dim3(rung == 5 ? 256 : 384),
         stages * (kHopperBytesOfA + kHopperBytesOfB) + 1024, rung == 5 ? hgemm_wgmma_waiting<T> : hgemm_wgmma<T>, c,
         hopper_map(a, hopper_tensor_a(m, k)), hopper_map(b, hopper_tensor_b(k, n)), static_cast<int>(m),
         static_cast<int>(n), static_cast<int>(k));
}

template void hgemm_hopper(Stream, __half*, const __half*, const __half*, int64_t, int64_t, int64_t, int);
template void hgemm_hopper(Stream, __nv_bfloat16*, const __nv_bfloat16*, const __nv_bfloat16*, int64_t, int64_t,
                           int64_t, int);

}  // namespace tenfold::kernels
