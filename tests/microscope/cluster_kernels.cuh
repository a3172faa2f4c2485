#pragma once
// Clusters, multicast and stores by TMA, a question each; the mistakes are at the line that the @marker names.
// cluster_test.cpp asks.
#include "hopper_kernels.cuh"
#include "kernels/ptx_cluster.cuh"

namespace tenfold::test {

using kernels::cluster_address;
using kernels::cluster_arrive;
using kernels::cluster_load;
using kernels::cluster_rank;
using kernels::cluster_store;
using kernels::cluster_wait;
using kernels::mbarrier_arrive_cluster;

__device__ inline void cluster_sync() {
  cluster_arrive();
  cluster_wait();  // @cluster_wait
}

// --- shared memory of others -----------------------------------------------------------------------------------------
/// Each block of 32 threads gives 32 words to the next one of its cluster. n: 0 right, 1 nothing between writing and
/// reading, 2 nobody waits before the end, 3 from a block that the cluster has not, 4 beyond the end, 5 writes behind
/// its arrival, 6 arrives twice, 7 waits without having arrived, 8 the last block arrives too rarely, 9 the reader
/// writes, 10 the words come by stores, 11 by stores with nothing between them and the reading, 12 not aligned.
template <bool kStatic>
static __global__ void cluster_hand_on(uint32_t* out, const uint32_t* in, int64_t n) {
  __shared__ uint32_t fixed[32];
  uint32_t* const tile = kStatic ? fixed : kernels::dynamic_shared<uint32_t>();
  const uint32_t lane = threadIdx.x, rank = cluster_rank(), blocks = n < 100 ? 2 : static_cast<uint32_t>(n - 100);
  const uint32_t next = (rank + 1) % blocks, value = in[blockIdx.x * 32 + lane];
  uint32_t* const mine = tile + lane;
  if (n == 10 || n == 11) cluster_sync();
  if (n == 10 || n == 11) cluster_store(cluster_address(mine, next), value);  // @remote_store
  if (n == 6) cluster_arrive();
  if (n == 6) cluster_arrive();                     // @arrive_twice
  if (n == 7) cluster_wait();                       // @wait_alone
  if (n < 5 || n >= 100 || n == 12) *mine = value;  // @own_store
  if (n == 5) cluster_arrive();
  if (n == 5) *mine = value;  // @late_store
  if (n == 5) cluster_wait();
  if (n == 8 && rank == 1) return;
  if (n == 8) cluster_arrive();
  if (n == 8 && lane == 3) return;
  if (n == 8) cluster_wait();
  if (n != 1 && n != 5 && n != 11) cluster_sync();  // @first_sync
  const uint32_t from = n == 3 ? 2 : next;
  const uint32_t* const place = n == 4 ? mine + 1024 : mine;
  const uint32_t address = cluster_address(place, from) + (n == 12 ? 2 : 0);
  uint32_t got = 0;
  if (n == 10 || n == 11) got = *mine;                            // @own_load
  if (n == 9) cluster_store(address, lane);                       // @unordered_store
  if (n == 9) *mine = lane;                                       // @unordered_own
  if (n < 9 || n >= 100 || n == 12) got = cluster_load(address);  // @remote_load
  if (n != 2) cluster_sync();
  out[blockIdx.x * 32 + lane] = got;
}

/// Block 0 tells block 1's mbarrier that its words are there, and waits at its own until block 1 has read them: no
/// other barrier is needed at the end. n: 0 right, 1 block 0 does not wait, 2 its barrier wants one arrival too many, 3
/// block 1 does not wait, 4 the blocks do not wait for each other at the beginning, 5 arrives at a block that is not
/// there, 6 tells it by an arrival that orders no stores.
static __global__ void cluster_mbarriers(uint32_t* out, const uint32_t* in, int64_t n) {
  __shared__ uint64_t ready, read;
  __shared__ uint32_t tile[32];
  const uint32_t lane = threadIdx.x;
  if (lane == 0) mbarrier_init(&ready, 32), mbarrier_init(&read, n == 2 ? 33 : 32);
  __syncthreads();
  if (n != 4) cluster_sync();
  if (cluster_rank() == 0) {
    tile[lane] = in[lane];  // @told_store
    const uint32_t barrier = cluster_address(&ready, n == 5 ? 2 : 1);
    if (n == 6) kernels::mbarrier_arrive_remote(barrier);
    if (n != 6) mbarrier_arrive_cluster(barrier);          // @tell
    if (n != 1) kernels::mbarrier_wait_cluster(&read, 0);  // @read_wait
  } else {
    if (n != 3) kernels::mbarrier_wait_cluster(&ready, 0);           // @ready_wait
    out[lane] = cluster_load(cluster_address(tile + 31 - lane, 0));  // @told_load
    mbarrier_arrive_cluster(cluster_address(&read, 0));              // @answer
  }
}

// --- multicast -------------------------------------------------------------------------------------------------------
/// Block 0 copies a box of 64 x 16 elements of 16 bits to both, and a second one to the same place where n is not 1
/// or 3. n: 0 right, 1 the mask has block 0 alone, 2 the mask names a block that is not there, 3 block 1 announces too
/// few bytes, 4 the blocks do not wait for each other at the beginning, 5 the second copy waits for the readers of
/// block 0 alone, 6 it waits for nobody, 7 nobody of block 1 waits for the first one, 8 block 1 tells block 0 before it
/// reads, 9 an empty mask.
static __global__ void cluster_multicast(uint16_t* out, const CUtensorMap* map, int64_t n) {
  __shared__ uint64_t full, empty;
  unsigned char* const tile = aligned_shared();
  const uint32_t lane = threadIdx.x, rank = cluster_rank();
  if (lane == 0) {
    mbarrier_init(&full, 1);
    mbarrier_init(&empty, n == 5 ? 32 : 64);
    mbarrier_init_fence();
  }
  __syncthreads();
  if (n != 4) cluster_sync();
  for (int round = 0; round < (n == 1 || n == 3 ? 1 : 2); ++round) {
    if (lane == 0) mbarrier_arrive_expect(&full, n == 3 && rank == 1 ? 1024 : 2048);
    const uint16_t mask = n == 1 ? 1 : n == 2 ? 5 : n == 9 ? 0 : 3;
    if (lane == 0 && rank == 0 && round == 1 && n != 6) mbarrier_wait(&empty, 0);                   // @empty_wait_all
    if (lane == 0 && rank == 0) kernels::tma_load_multicast(tile, map, &full, 8 * round, 0, mask);  // @multicast
    if (n != 7 || rank == 0) mbarrier_wait(&full, static_cast<uint32_t>(round));                    // @multicast_wait
    const uint32_t address = cluster_address(&empty, 0);
    if (round == 0 && n == 8) mbarrier_arrive_cluster(address);
    for (uint32_t i = lane; i < 1024; i += 32)
      out[(rank * 2 + round) * 1024 + i] = reinterpret_cast<uint16_t*>(tile)[i];  // @multicast_load
    if (round == 0 && n != 8 && (n != 5 || rank == 0)) mbarrier_arrive_cluster(address);
  }
  cluster_sync();
}

// --- stores by TMA ---------------------------------------------------------------------------------------------------
/// Stores the box of 64 x 16 elements i + 1 to x = n % 65536 - 1000, y = n / 65536 - 1000.
static __global__ void box_stored_at(uint16_t*, const CUtensorMap* map, int64_t n) {
  uint16_t* const tile = reinterpret_cast<uint16_t*>(aligned_shared());
  for (unsigned i = threadIdx.x; i < 1024; i += 32) tile[i] = static_cast<uint16_t>(i + 1);
  kernels::fence_async_proxy();
  __syncwarp();
  if (threadIdx.x != 0) return;
  kernels::tma_store(map, tile, static_cast<int>(n % 65536) - 1000, static_cast<int>(n / 65536) - 1000);  // @stored
  kernels::tma_store_commit();
  kernels::tma_store_wait<0>();
}

/// n: 0 right, 1 no fence, 2 no barrier behind the threads' stores, 3 written again before the wait, 4 behind a wait
/// for all but the newest, 5 no commit, 6 nobody waits, 7 not aligned, 8 the tensor is read behind a wait that is for
/// shared memory only, 9 the same behind a whole one, 10 written again by another lane with no barrier behind the wait,
/// 11 not from shared memory, 12 the fence behind the barrier, by the lane that stores, which is right.
static __global__ void box_store_mistake(uint16_t* out, const CUtensorMap* map, int64_t n) {
  uint16_t* const tile = reinterpret_cast<uint16_t*>(aligned_shared());
  const unsigned lane = threadIdx.x;
  for (unsigned i = lane; i < 1024; i += 32) tile[i] = static_cast<uint16_t>(i + 1);  // @filled
  if (n != 1 && n != 12) kernels::fence_async_proxy();
  if (n != 2) __syncwarp();
  if (n == 12) kernels::fence_async_proxy();
  if (lane == 0) {
    kernels::tma_store(map, n == 11 ? out : n == 7 ? tile + 64 : tile, 0, 0);  // @bad_store
    if (n != 5) kernels::tma_store_commit();
    if (n == 4) kernels::tma_store_wait_read<1>();
    if (n == 9) kernels::tma_store_wait<0>();
    if (n != 3 && n != 4 && n != 6 && n != 9) kernels::tma_store_wait_read<0>();
  }
  if (n == 8 || n == 9) __syncwarp();
  if (n == 8 || n == 9) tile[lane] = out[lane];                    // @result_load
  if (n == 3 || n == 4 || (n == 10 && lane == 1)) tile[lane] = 0;  // @refilled
  if (n == 3 || n == 4) kernels::tma_store_wait_read<0>();
}

}  // namespace tenfold::test
