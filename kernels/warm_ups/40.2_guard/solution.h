#pragma once
// The kept solution of exercise 40.2; CI proves that it passes.
#include "kernels/launch.cuh"

/// out[i] = a[i] + b[i] for i < n. Launched with as many blocks of blockDim.x threads as cover n values.
static __global__ void add(float* out, const float* a, const float* b, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = a[i] + b[i];
}
