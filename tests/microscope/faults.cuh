#pragma once
// Kernels with one mistake each, at the line that its @marker names, and beside them right ones that look alike.
#include "kernels/launch.cuh"

namespace tenfold::test {

using kernels::dynamic_shared;

// --- races in a block ------------------------------------------------------------------------------------------------
static __global__ void missing_barrier(float* out, const float* in, int64_t n) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];           // @unordered_store
  out[threadIdx.x] = tile[n - 1 - threadIdx.x];  // @unordered_load
}

/// The same, read by the byte, once: what came before the first narrow access of a launch must not be forgotten.
static __global__ void missing_barrier_byte(float* out, const float* in, int64_t n) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];                                                           // @wide_store
  if (threadIdx.x == n - 1) out[threadIdx.x] = reinterpret_cast<const unsigned char*>(tile)[2];  // @narrow_load
}

static __global__ void with_barrier(float* out, const float* in, int64_t n) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[n - 1 - threadIdx.x];
}

/// A loop that fills its tile again while slower threads still read it.
static __global__ void missing_second_barrier(float* out, const float* in, int64_t n) {
  __shared__ float tile[128];
  float sum = 0;
  for (int64_t step = 0; step < n; ++step) {
    tile[threadIdx.x] = in[step * 128 + threadIdx.x];  // @overwriting_store
    __syncthreads();
    sum += tile[127 - threadIdx.x];  // @overwritten_load
  }
  out[threadIdx.x] = sum;
}

/// Two tiles in turn need one barrier for each step only.
static __global__ void double_buffer(float* out, const float* in, int64_t n) {
  __shared__ float tile[2][128];
  float sum = 0;
  for (int64_t step = 0; step < n; ++step) {
    tile[step % 2][threadIdx.x] = in[step * 128 + threadIdx.x];
    __syncthreads();
    sum += tile[step % 2][127 - threadIdx.x];
  }
  out[threadIdx.x] = sum;
}

/// Lanes run in no order between two synchronisations, even of one warp.
static __global__ void missing_syncwarp(float* out, const float* in, int64_t) {
  __shared__ float tile[32];
  tile[threadIdx.x] = in[threadIdx.x];        // @lane_store
  out[threadIdx.x] = tile[31 - threadIdx.x];  // @lane_load
}

/// Shuffles move registers and order no memory.
static __global__ void shuffle_instead_of_syncwarp(float* out, const float* in, int64_t) {
  __shared__ float tile[32];
  tile[threadIdx.x] = in[threadIdx.x];  // @shuffled_store
  const float other = __shfl_xor_sync(0xffffffffU, in[threadIdx.x], 1);
  out[threadIdx.x] = tile[31 - threadIdx.x] + other;  // @shuffled_load
}

static __global__ void warp_synchronous(float* out, const float* in, int64_t) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  for (unsigned half = 16; half > 0; half /= 2) {
    __syncwarp();
    const float sum = tile[threadIdx.x] + tile[threadIdx.x ^ half];
    __syncwarp();
    tile[threadIdx.x] = sum;
  }
  out[threadIdx.x] = tile[threadIdx.x];
}

/// A __syncwarp does nothing between warps.
static __global__ void syncwarp_between_warps(float* out, const float* in, int64_t n) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];  // @warps_store
  __syncwarp();
  out[threadIdx.x] = tile[n - 1 - threadIdx.x];  // @warps_load
}

/// Each half of the warp works and synchronises for itself.
static __global__ void half_warps(float* out, const float* in, int64_t) {
  __shared__ float tile[32];
  const unsigned half = threadIdx.x / 16 * 16;
  tile[threadIdx.x] = in[threadIdx.x];
  __syncwarp(0xffffU << half);
  out[threadIdx.x] = tile[half + 15 - threadIdx.x % 16];
}

/// Each half synchronises for itself and then reads the other one's.
static __global__ void half_warps_crossed(float* out, const float* in, int64_t) {
  __shared__ float tile[32];
  tile[threadIdx.x] = in[threadIdx.x];  // @crossed_store
  __syncwarp(0xffffU << threadIdx.x / 16 * 16);
  out[threadIdx.x] = tile[31 - threadIdx.x];  // @crossed_load
}

/// From the lower half to lane 16, and on to the upper half: an order has to be handed on.
static __global__ void syncwarp_chain(float* out, const float* in, int64_t) {
  __shared__ float tile[32];
  tile[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x <= 16) __syncwarp(0x0001ffffU);
  if (threadIdx.x >= 16) __syncwarp(0xffff0000U);
  out[threadIdx.x] = threadIdx.x < 16 ? tile[15 - threadIdx.x] : tile[31 - threadIdx.x];
}

static __global__ void atomics_together(int* out, const int* in, int64_t n) {
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, in[threadIdx.x]);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(&out[n], sum);
}

/// The zero is written while others add already.
static __global__ void atomic_without_barrier(int* out, const int* in, int64_t) {
  __shared__ int sum;
  if (threadIdx.x == 32) sum = 0;    // @zero_store
  atomicAdd(&sum, in[threadIdx.x]);  // @early_atomic
  __syncthreads();
  if (threadIdx.x == 0) out[0] = sum;
}

// --- races between blocks --------------------------------------------------------------------------------------------
static __global__ void blocks_write_same(int* out, const int*, int64_t) {
  if (threadIdx.x == 0) out[0] = static_cast<int>(blockIdx.x);  // @same_word
}

/// Thread 0 of every block reads the word; that of the last one writes it.
static __global__ void last_block_overwrites(int* out, const int*, int64_t) {
  if (threadIdx.x != 0) return;
  const int before = out[0];                             // @all_read
  if (blockIdx.x == gridDim.x - 1) out[0] = before + 1;  // @one_writes
}

/// A sum of sums: the last block to finish adds up. n = 1: with the fence that makes the others' sums visible.
template <bool kFence>
static __global__ void last_block(int* out, const int* in,
                                  int64_t) {  // out: a sum for each block, the count, the result
  __shared__ bool is_last;
  __shared__ int sum;
  int* blocks_done = out + gridDim.x;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, in[blockIdx.x * blockDim.x + threadIdx.x]);
  __syncthreads();
  if (threadIdx.x == 0) {
    out[blockIdx.x] = sum;  // @partial_sum
    if constexpr (kFence) __threadfence();
    is_last = atomicAdd(blocks_done, 1) == static_cast<int>(gridDim.x) - 1;
    if constexpr (kFence) __threadfence();
  }
  __syncthreads();
  if (!is_last || threadIdx.x != 0) return;
  int all = 0;
  for (unsigned block = 0; block < gridDim.x; ++block) all += out[block];  // @partial_sum_read
  out[gridDim.x + 1] = all;
}

static __global__ void add_one(int* out, const int*, int64_t) { out[threadIdx.x + blockIdx.x * blockDim.x] += 1; }

// --- addresses -------------------------------------------------------------------------------------------------------
static __global__ void off_by_one(float* out, const float* in, int64_t) {
  out[threadIdx.x] = in[threadIdx.x + 1];  // @off_by_one
}

static __global__ void before_the_start(float* out, const float*, int64_t n) {
  out[static_cast<int64_t>(threadIdx.x) - n] = 1;  // @before_the_start
}

static __global__ void dynamic_off_by_one(float* out, const float*, int64_t) {
  float* tile = dynamic_shared<float>();
  tile[threadIdx.x + 1] = 1;  // @dynamic_off_by_one
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];
}

static __global__ void misaligned(float* out, const float* in, int64_t n) {
  const float4 value = *reinterpret_cast<const float4*>(in + n + 4 * threadIdx.x);  // @misaligned
  out[threadIdx.x] = value.x + value.y + value.z + value.w;
}

static __global__ void misaligned_copy(float4* out, const float4* in, int64_t) {
  out[threadIdx.x] = in[threadIdx.x];  // @misaligned_copy
}

static __global__ void misaligned_store(float* out, const float*, int64_t n) {
  const float2 two = {1, 2};
  *reinterpret_cast<float2*>(out + n + 2 * threadIdx.x) = two;  // @misaligned_store
}

static __global__ void null_pointer(float* out, const float* in, int64_t) {
  out[threadIdx.x] = in[threadIdx.x];  // @null_pointer
}

static __global__ void wild_pointer(float* out, const float* in, int64_t n) {
  if (threadIdx.x == 3) {
    out[0] = in[n];  // @wild_pointer
  }
}

// --- who takes part --------------------------------------------------------------------------------------------------
/// The upper half reads nothing, but the lower half reads from it.
static __global__ void shuffle_from_outside(int* out, const int*, int64_t) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(0x0000ffffU, 7, 16);  // @from_outside
}

/// All 32 lanes call; lane 31 is not in the mask.
static __global__ void mask_without_caller(int* out, const int*, int64_t) {
  out[threadIdx.x] = __shfl_xor_sync(0x7fffffffU, 7, 0);  // @without_caller
}

/// The mask names all lanes; the upper half waits at the block's barrier instead.
static __global__ void lanes_that_never_come(int* out, const int*, int64_t) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_down_sync(0xffffffffU, 7, 1);  // @never_come
  __syncthreads();
}

/// Two groups of lanes wait for each other at different operations.
static __global__ void lanes_wait_for_each_other(int* out, const int*, int64_t) {
  if (threadIdx.x < 16) {
    out[threadIdx.x] = __any_sync(0xffffffffU, 1);  // @wait_lower
  } else {
    out[threadIdx.x] = __all_sync(0xffffffffU, 1);  // @wait_upper
  }
}

static __global__ void barrier_in_branch(int* out, const int*, int64_t) {
  if (threadIdx.x < 16) __syncthreads();  // @barrier_in_branch
  out[threadIdx.x] = 1;
}

/// Both sides reach a barrier, but not the same one.
static __global__ void two_barriers(int* out, const int*, int64_t) {
  if (threadIdx.x < 16) {
    __syncthreads();  // @barrier_lower
    out[threadIdx.x] = 1;
  } else {
    out[threadIdx.x] = 2;
    __syncthreads();  // @barrier_upper
  }
}

/// One barrier of the source, though a compiler may give each way through the branch a copy of it.
static __global__ void barrier_after_branch(float* out, const float* in, int64_t n) {
  __shared__ float tile[64];
  for (int64_t step = 0; step < n; ++step) {
    if (threadIdx.x < 32) {
      tile[threadIdx.x] = in[threadIdx.x];
    } else {
      tile[threadIdx.x] = 2 * in[threadIdx.x] + 1;
    }
    __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x];
    __syncthreads();
  }
}

}  // namespace tenfold::test
