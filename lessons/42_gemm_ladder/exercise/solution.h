#pragma once
#include "kernels/launch.cuh"

constexpr int kTile = 32;
constexpr int kThreadsX = 32, kThreadsY = 32;

/// Both tiles are copied along their rows, side by side, and a value is used 32 times. In the product the lanes stand
/// in 32 different rows of w's tile: with a pitch of 33 these are 32 different banks. Outside x and w the tiles hold 0.
static __global__ void linear(float* y, const float* x, const float* w, int m, int n, int k) {
  __shared__ float x_tile[kTile][kTile];      // (row, depth)
  __shared__ float w_tile[kTile][kTile + 1];  // (column, depth)
  const int at_x = static_cast<int>(threadIdx.x), at_y = static_cast<int>(threadIdx.y);
  const int first_column = static_cast<int>(blockIdx.x) * kTile, first_row = static_cast<int>(blockIdx.y) * kTile;
  float sum = 0;
  for (int k0 = 0; k0 < k; k0 += kTile) {
    const int depth = k0 + at_x;
    x_tile[at_y][at_x] = first_row + at_y < m && depth < k ? x[(first_row + at_y) * k + depth] : 0;
    w_tile[at_y][at_x] = first_column + at_y < n && depth < k ? w[(first_column + at_y) * k + depth] : 0;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += x_tile[at_y][i] * w_tile[at_x][i];
    __syncthreads();  // nobody overwrites a tile that another still reads
  }
  if (first_row + at_y < m && first_column + at_x < n) y[(first_row + at_y) * n + first_column + at_x] = sum;
}
