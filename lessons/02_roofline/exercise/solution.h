#pragma once
#include "kernels/launch.cuh"

constexpr int kThreads = 128;  // of a block

/// w[i] = factor * w[i] + summand, `updates` times, for i < n: a float stays in a register between its load and its
/// store.
static __global__ void update_often(float* w, int64_t n, int64_t updates, float factor, float summand) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  float value = w[i];
  for (int64_t update = 0; update < updates; ++update) value = fmaf(value, factor, summand);
  w[i] = value;
}

template <class Stream>
void update_all(Stream stream, float* w, int64_t n, int64_t updates, float factor, float summand) {
  const dim3 blocks(static_cast<unsigned>((n + kThreads - 1) / kThreads));
  tenfold::kernels::launch(stream, blocks, dim3(kThreads), 0, update_often, w, n, updates, factor, summand);
}
