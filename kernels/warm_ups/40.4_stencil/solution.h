#pragma once
// The kept solution of exercise 40.4; CI proves that it passes.
#include "kernels/launch.cuh"

constexpr int kThreads = 128;  // of a block

/// out[i] = in[i - 1] + in[i] + in[i + 1] for i < n; what lies outside `in` counts as 0.
static __global__ void sum_of_three(float* out, const float* in, int64_t n) {
  __shared__ float tile[kThreads + 2];  // tile[t + 1] is in[i] of thread t
  const int t = static_cast<int>(threadIdx.x);
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + t;
  tile[t + 1] = i < n ? in[i] : 0;
  if (t == 0) tile[0] = i > 0 ? in[i - 1] : 0;
  if (t == kThreads - 1) tile[kThreads + 1] = i + 1 < n ? in[i + 1] : 0;
  __syncthreads();  // for every thread: one that has no value has still to arrive here
  if (i < n) out[i] = tile[t] + tile[t + 1] + tile[t + 2];
}
