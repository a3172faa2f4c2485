#pragma once
// The kept solution of exercise 40.3; CI proves that it passes.
#include "kernels/launch.cuh"

/// out[row][column] = in[row][column] + bias[column]; in and out (rows, columns), row-major; bias (columns). Launched
/// with blocks of 32 x 8 threads; gridDim.x blocks of 32 cover the columns, gridDim.y blocks of 8 the rows.
static __global__ void add_bias(float* out, const float* in, const float* bias, int rows, int columns) {
  const int row = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= rows || column >= columns) return;
  out[row * columns + column] = in[row * columns + column] + bias[column];
}
