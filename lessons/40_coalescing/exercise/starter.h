#pragma once
// Your answer to exercise 40. Build and check it with: ./tenfold exercise 40
#include "kernels/launch.cuh"

constexpr int kThreads = 128;  // of a block; block b has the points from b * kThreads on

/// x[i], y[i], z[i] = points[3 * i], points[3 * i + 1], points[3 * i + 2] for i < n.
static __global__ void split_points(float* x, float* y, float* z, const float* points, int64_t n) {
  // Hint: which floats should the 32 lanes read together? `__shared__ float part[3 * kThreads];` can hold a block's
  // points.
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  x[i] = points[3 * i];
  y[i] = points[3 * i + 1];
  z[i] = points[3 * i + 2];
}
