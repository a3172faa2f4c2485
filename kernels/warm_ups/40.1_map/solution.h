#pragma once
// The kept solution of exercise 40.1; CI proves that it passes.
#include "kernels/launch.cuh"

/// out[i] = factor * in[i]. Launched with one block of as many threads as there are values.
static __global__ void scale(float* out, const float* in, float factor) {
  const int i = static_cast<int>(threadIdx.x);
  out[i] = factor * in[i];
}
