#pragma once
// Your answer to exercise 40.1. Build and check it with: ./tenfold exercise 40.1
#include "kernels/launch.cuh"

/// out[i] = factor * in[i]. Launched with one block of as many threads as there are values.
static __global__ void scale(float* out, const float* in, float factor) {
  // Hint: threadIdx.x is the number of the thread in its block, from 0.
  out[0] = factor * in[0];
}
