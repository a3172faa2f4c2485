#pragma once
// The kept solution of exercise 47; CI proves that it passes.
#include "kernels/launch.cuh"

/// The sine of x within 2^-20, for |x| <= 10,000; calls fast_sine once, with an angle of at most pi, give or take a
/// rounding. Argument reduction after Cody and Waite: 2 pi as a float with few bits, whose product with the turns is
/// exact, and two that hold what is missing.
__device__ inline float sine(float x) {
  const float turns = rintf(x * 0.15915494309F);
  float angle = fmaf(turns, -6.28125F, x);
  angle = fmaf(turns, -0x1.fb5p-10F, angle);
  angle = fmaf(turns, -0x1.110b46p-24F, angle);
  return fast_sine(angle);
}

/// out[i] = sine(x[i]) for i < n. Launched with as many threads as cover n angles.
static __global__ void sines(float* out, const float* x, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = sine(x[i]);
}
