#pragma once
// Joins over a block that cost more than an addition: moments, the largest value with its sum.

#include "rows.cuh"

namespace tenfold::kernels {

__device__ inline float of_first_lane(float value) { return __shfl_sync(0xffffffffU, value, 0); }

/// As combine_block(), for values of which there is no nothing(), and which two lanes may join to other bits: a lane
/// without a partner keeps what it has, and all take the first lane's. A type of your own needs a shuffle_xor and an
/// of_first_lane. The same bits in every thread; also a barrier for the block's accesses to memory. The block is
/// one-dimensional, of whole warps.
template <class T, class Combine>
__device__ inline T join_block(T value, Combine combine) {
  T* of_warp = warp_places<T>();
  value = combine_warp(value, combine);
  __syncthreads();  // somebody may still read an earlier call's values
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  const unsigned warps = blockDim.x / 32, lane = threadIdx.x % 32;
  value = of_warp[lane < warps ? lane : 0];
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    const T other = shuffle_xor(value, lanes);
    if ((lane ^ static_cast<unsigned>(lanes)) < warps) value = combine(value, other);
  }
  return of_first_lane(value);  // which has all of them; a lane without a partner in some step has not
}

}  // namespace tenfold::kernels
