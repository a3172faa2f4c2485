#pragma once
#include "kernels/launch.cuh"

constexpr int kThreads = 128;
constexpr int kBins = 32;

/// The counters of a bin lie side by side, so that a lane's bank is its own number whatever the values are. Padding
/// would not do: the bank would then depend on the value. The sums turn the order around: lane b begins at counter b,
/// not at 0, or all lanes would walk down one bank.
static __global__ void histogram(int* bins, const int* values, int64_t n) {
  __shared__ int counts[kBins][kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  for (int bin = 0; bin < kBins; ++bin) counts[bin][thread] = 0;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + thread; i < n;
       i += static_cast<int64_t>(gridDim.x) * kThreads) {
    ++counts[values[i]][thread];
  }
  __syncthreads();
  if (thread >= kBins) return;
  int sum = 0;
  for (int step = 0; step < kThreads; ++step) sum += counts[thread][(step + thread) % kThreads];
  atomicAdd(&bins[thread], sum);
}
