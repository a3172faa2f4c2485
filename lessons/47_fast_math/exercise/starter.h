#pragma once
// Your answer to exercise 47. Build and check it with: ./tenfold exercise 47
#include "kernels/launch.cuh"

/// The sine of x within 2^-20, for |x| <= 10,000; calls fast_sine once, with an angle of at most pi, give or take a
/// rounding.
__device__ inline float sine(float x) {
  // Hint: rintf(x / (2 pi)) is the number of turns. 2 pi = 6.28125F + 0.001935307F + ..., and turns * 6.28125F has no
  // rounding error here: which floats have few enough bits?
  return fast_sine(x);
}

/// out[i] = sine(x[i]) for i < n. Launched with as many threads as cover n angles.
static __global__ void sines(float* out, const float* x, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = sine(x[i]);
}
