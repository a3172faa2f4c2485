#pragma once
#include "kernels/launch.cuh"

constexpr int kThreads = 128;

/// A block reads its points as one row of floats, whoever they belong to, and picks them apart in shared memory. A
/// stride of three floats has no bank conflict: three and 32 share no divisor.
static __global__ void split_points(float* x, float* y, float* z, const float* points, int64_t n) {
  __shared__ float part[3 * kThreads];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads;
  for (int64_t at = threadIdx.x; at < 3 * kThreads && 3 * first + at < 3 * n; at += kThreads)
    part[at] = points[3 * first + at];
  __syncthreads();
  const int64_t i = first + threadIdx.x;
  if (i >= n) return;
  x[i] = part[3 * threadIdx.x];
  y[i] = part[3 * threadIdx.x + 1];
  z[i] = part[3 * threadIdx.x + 2];
}
