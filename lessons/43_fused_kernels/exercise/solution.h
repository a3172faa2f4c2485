#pragma once
// The kept solution of exercise 43; CI proves that it passes.
#include "kernels/launch.cuh"

constexpr int64_t kMostColumns = 1024;

/// A warp for each row; a lane keeps its share of the row in registers. The loop that fills them is unrolled, because
/// registers have no addresses: an index that is not known when compiling would put them into memory.
static __global__ void add_and_normalise_row(float* sum, float* out, const float* x, const float* residual,
                                             const float* weight, int64_t columns) {
  const int64_t row = blockIdx.x * columns;
  float held[kMostColumns / 32];
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kMostColumns / 32; ++i) {
    const int64_t c = threadIdx.x + 32 * i;
    held[i] = c < columns ? x[row + c] + residual[row + c] : 0;
    squares += held[i] * held[i];
    if (c < columns) sum[row + c] = held[i];
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) squares += __shfl_xor_sync(0xffffffffU, squares, lanes);
  const float scale = rsqrtf(squares / static_cast<float>(columns) + 1e-6F);
#pragma unroll
  for (int i = 0; i < kMostColumns / 32; ++i) {
    const int64_t c = threadIdx.x + 32 * i;
    if (c < columns) out[row + c] = held[i] * scale * weight[c];
  }
}

/// sum = x + residual and out = sum / sqrt(mean over the row of sum^2 + 1e-6) * weight. All are (rows, columns),
/// row-major, but weight (columns); at most kMostColumns columns.
inline void add_and_normalise(tenfold::kernels::Stream stream, float* sum, float* out, const float* x,
                              const float* residual, const float* weight, int64_t rows, int64_t columns) {
  tenfold::kernels::launch(stream, dim3(static_cast<unsigned>(rows)), dim3(32), 0, add_and_normalise_row, sum, out, x,
                           residual, weight, columns);
}
