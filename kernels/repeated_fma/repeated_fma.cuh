#pragma once
// One thread, one element.
#include "kernels/launch.cuh"

namespace tenfold::kernels {

/// A warp loads 32 neighbours, 4 sectors, and stores them again; between the two nothing leaves the registers. Each
/// update waits for the one before; the schedulers fill the time with other warps' updates, where a CPU needs several
/// weights in flight in one thread.
static __global__ void repeated_fma_kernel(float* out, const float* in, int64_t count, int64_t updates, float factor,
                                           float summand) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float w = in[i];
#pragma unroll 8
  for (int64_t update = 0; update < updates; ++update) w = fmaf(w, factor, summand);
  out[i] = w;
}

}  // namespace tenfold::kernels
