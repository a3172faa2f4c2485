#pragma once
// Two copies with the same accesses to global memory.
#include "kernels/launch.cuh"

namespace tenfold::kernels {

constexpr unsigned kTileCopyThreads = 256;

/// Rung 0: a load and a store, 4 sectors each.
static __global__ void copy_straight(float* __restrict__ out, const float* __restrict__ in, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kTileCopyThreads + threadIdx.x;
  if (i < count) out[i] = in[i];
}

/// Rung 1: each float waits in shared memory until the whole block has loaded its own. The sectors stay as they are,
/// since the accesses were side by side before and each value is needed once; a store and a load of shared memory and a
/// barrier come on top.
static __global__ void copy_through_tile(float* __restrict__ out, const float* __restrict__ in, int64_t count) {
  __shared__ float tile[kTileCopyThreads];
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kTileCopyThreads + threadIdx.x;
  if (i < count) tile[threadIdx.x] = in[i];
  __syncthreads();  // every thread of the block, also those past the end
  if (i < count) out[i] = tile[threadIdx.x];
}

}  // namespace tenfold::kernels
