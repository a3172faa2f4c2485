#pragma once
// One thread, one element: lane i of a warp reads the float at offset + i * stride.
#include "kernels/launch.cuh"

namespace tenfold::kernels {

static __global__ void strided_copy_kernel(float* out, const float* in, int64_t count, int64_t stride, int64_t offset) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) out[i] = in[offset + i * stride];
}

}  // namespace tenfold::kernels
