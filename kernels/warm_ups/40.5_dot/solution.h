#pragma once
// The kept solution of exercise 40.5; CI proves that it passes.
#include "kernels/launch.cuh"

constexpr int kThreads = 128;  // of a block

/// Adds the sum of a[i] * b[i] over i < n to *out, which is 0 before.
static __global__ void dot(float* out, const float* a, const float* b, int64_t n) {
  __shared__ float sums[kThreads];
  const int t = static_cast<int>(threadIdx.x);
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + t;
  sums[t] = i < n ? a[i] * b[i] : 0;
  __syncthreads();
  for (int step = kThreads / 2; step > 0; step /= 2) {
    if (t < step) sums[t] += sums[t + step];
    __syncthreads();
  }
  if (t == 0) atomicAdd(out, sums[0]);
}
