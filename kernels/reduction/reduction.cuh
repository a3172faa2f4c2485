#pragma once
// The rungs of the reduction ladder. Rungs 0 to 4 add to *out, which is zero at the start.
#include "kernels/launch.cuh"
#include "reduction.h"

namespace tenfold::kernels {

constexpr unsigned kThreads = kReductionThreads;
constexpr unsigned kWarps = kThreads / 32;
constexpr unsigned kAllLanes = 0xffffffffU;

static __global__ void reduction_zero(float* out) { *out = 0; }

/// This thread's number in the grid, and the number of threads in the grid.
static __device__ int64_t thread_of_grid() { return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; }
static __device__ int64_t threads_of_grid() { return static_cast<int64_t>(gridDim.x) * kThreads; }

/// Rung 0: every thread adds its element to the result. The loads are as good as can be, but n atomics on one address
/// go one after the other through one slice of the L2 cache.
static __global__ void reduction_atomic(float* out, const float* __restrict__ in, int64_t n) {
  const int64_t i = thread_of_grid();
  if (i < n) atomicAdd(out, in[i]);
}

/// Rung 1: a block adds up its 256 elements in shared memory and does one atomic. The partner is 1, 2, 4, ... places
/// away, so the threads that still add are spread over all warps: in the first five of eight steps each warp runs, with
/// ever fewer of its lanes.
static __global__ void reduction_interleaved(float* out, const float* __restrict__ in, int64_t n) {
  __shared__ float values[kThreads];
  const int64_t i = thread_of_grid();
  values[threadIdx.x] = i < n ? in[i] : 0;
  __syncthreads();
  for (unsigned distance = 1; distance < kThreads; distance *= 2) {
    if (threadIdx.x % (2 * distance) == 0) values[threadIdx.x] += values[threadIdx.x + distance];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, values[0]);
}

/// Rung 2: the partner is 128, 64, 32, ... places away. The threads that still add are neighbours: whole warps have
/// nothing left to do, and those that work ask for 32 neighbouring words: 12 requests per block and operand instead
/// of 47.
static __global__ void reduction_sequential(float* out, const float* __restrict__ in, int64_t n) {
  __shared__ float values[kThreads];
  const int64_t i = thread_of_grid();
  values[threadIdx.x] = i < n ? in[i] : 0;
  __syncthreads();
  for (unsigned distance = kThreads / 2; distance > 0; distance /= 2) {
    if (threadIdx.x < distance) values[threadIdx.x] += values[threadIdx.x + distance];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, values[0]);
}

/// Rung 3: a thread adds up eight or more elements, a whole grid apart, before the tree begins. The neighbours of a
/// warp still read neighbours, most additions now need neither shared memory nor a barrier, and there are at most 1024
/// atomics.
static __global__ void reduction_grid_stride(float* out, const float* __restrict__ in, int64_t n) {
  __shared__ float values[kThreads];
  float sum = 0;
#pragma unroll 4
  for (int64_t i = thread_of_grid(); i < n; i += threads_of_grid()) sum += in[i];
  values[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned distance = kThreads / 2; distance > 0; distance /= 2) {
    if (threadIdx.x < distance) values[threadIdx.x] += values[threadIdx.x + distance];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, values[0]);
}

/// The sum over a warp, in lane 0: five exchanges of registers, with neither memory nor barrier.
static __device__ float warp_sum(float value) {
#pragma unroll
  for (unsigned distance = 16; distance > 0; distance /= 2) value += __shfl_down_sync(kAllLanes, value, distance);
  return value;
}

/// The sum over a block, in thread 0. Between two uses there must be a barrier: both use the same shared memory.
static __device__ float block_sum(float value) {
  __shared__ float sums[kWarps];
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x >= 32) return 0;
  return warp_sum(threadIdx.x < kWarps ? sums[threadIdx.x] : 0);
}

/// Rung 4: shuffles instead of the tree in shared memory. Of each warp one float goes through shared memory, and of
/// nine barriers one is left.
static __global__ void reduction_shuffle(float* out, const float* __restrict__ in, int64_t n) {
  float sum = 0;
#pragma unroll 4
  for (int64_t i = thread_of_grid(); i < n; i += threads_of_grid()) sum += in[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) atomicAdd(out, sum);
}

/// Rung 5: 16-byte loads, 16 sectors per request, and no atomic addition of floats, whose order changes from run to
/// run. Each block leaves its sum in the workspace; the block that is the last to count itself finds all of them there
/// and adds them up, always in the same order. It also sets the counter back: neither `out` nor the workspace needs a
/// launch of its own.
static __global__ void reduction_last_block(float* out, const float* __restrict__ in, int64_t n,
                                            ReductionWorkspace* workspace) {
  // The first 0 to 3 elements up to a multiple of 16 bytes, the float4 in the middle, and the last 0 to 3 elements.
  const auto misaligned = static_cast<int64_t>(reinterpret_cast<uintptr_t>(in) % sizeof(float4) / sizeof(float));
  const int64_t head = misaligned == 0 ? 0 : min(n, 4 - misaligned);
  const int64_t vectors = (n - head) / 4, tail = head + 4 * vectors;
  const auto* middle = reinterpret_cast<const float4*>(in + head);

  const int64_t first = thread_of_grid();
  float sum = 0;
#pragma unroll 4
  for (int64_t i = first; i < vectors; i += threads_of_grid()) {
    const float4 values = middle[i];
    sum += (values.x + values.y) + (values.z + values.w);
  }
  if (first < head) sum += in[first];
  if (first < n - tail) sum += in[tail + first];

  __shared__ bool is_last;
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    workspace->partial[blockIdx.x] = sum;
    __threadfence();  // whoever sees this block counted must see its sum
    is_last = atomicAdd(&workspace->blocks_done, 1U) == gridDim.x - 1;
    __threadfence();  // and the last block must not read sums from before it counted
  }
  __syncthreads();
  if (!is_last) return;

  sum = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kThreads) sum += workspace->partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    *out = sum;
    workspace->blocks_done = 0;
  }
}

}  // namespace tenfold::kernels
