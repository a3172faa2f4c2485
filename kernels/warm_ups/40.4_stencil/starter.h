#pragma once
// Your answer to exercise 40.4. Build and check it with: ./tenfold exercise 40.4
#include "kernels/launch.cuh"

constexpr int kThreads = 128;  // of a block

/// out[i] = in[i - 1] + in[i] + in[i + 1] for i < n; what lies outside `in` counts as 0.
static __global__ void sum_of_three(float* out, const float* in, int64_t n) {
  // Hint: `__shared__ float tile[kThreads + 2];` holds what the block's threads need. Who loads its first and its last
  // value, and when may the others read them?
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const float left = i > 0 ? in[i - 1] : 0, right = i + 1 < n ? in[i + 1] : 0;
  out[i] = left + in[i] + right;
}
