#pragma once
// Three ways to divide a row by its root mean square. Row-major (rows, columns); see rms_norm.h.

#include "kernels/rows.cuh"

namespace tenfold::kernels {

/// Rung 0: a thread per row: one pass for the squares, one for the result. A warp's lanes read 32 different rows, so
/// each lane's 4 bytes cost a sector of 32 bytes.
template <class T>
static __global__ void rms_norm_thread_per_row(T* __restrict__ out, float* __restrict__ rstd_out,
                                               const T* __restrict__ in, const T* __restrict__ weight, int64_t rows,
                                               int64_t columns, float epsilon) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  in += row * columns;
  out += row * columns;
  float squares = 0;
  for (int64_t c = 0; c < columns; ++c) {
    const float value = to_float(in[c]);
    squares += value * value;
  }
  const float rstd = rsqrtf(squares / static_cast<float>(columns) + epsilon);
  for (int64_t c = 0; c < columns; ++c) out[c] = from_float<T>(to_float(in[c]) * rstd * to_float(weight[c]));
  rstd_out[row] = rstd;
}

/// Rung 1: a warp per row. The lanes read neighbours, so a request of 32 floats is 4 full sectors; five shuffles join
/// the sums, with neither shared memory nor a barrier. A long row keeps 32 lanes busy for long.
template <class T>
static __global__ void rms_norm_warp_per_row(T* __restrict__ out, float* __restrict__ rstd_out,
                                             const T* __restrict__ in, const T* __restrict__ weight, int64_t rows,
                                             int64_t columns, float epsilon) {
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (row >= rows) return;  // a whole warp leaves
  in += row * columns;
  out += row * columns;
  float squares = 0;
  for (int64_t c = lane; c < columns; c += 32) {
    const float value = to_float(in[c]);
    squares += value * value;
  }
  squares = combine_warp(squares, Add());
  const float rstd = rsqrtf(squares / static_cast<float>(columns) + epsilon);
  for (int64_t c = lane; c < columns; c += 32) out[c] = from_float<T>(to_float(in[c]) * rstd * to_float(weight[c]));
  if (lane == 0) rstd_out[row] = rstd;
}

/// Rung 2: a block per row and N values at a time, 16 bytes where the rows allow it: a quarter of the requests for
/// floats (an eighth for halves), up to sixteen warps on one row, and the second read comes from the multiprocessor's
/// cache. Of rows of one warp (kOneWarp) a block has several.
template <class T, int N, bool kOneWarp>
static __global__ void rms_norm_packets(T* __restrict__ out, float* __restrict__ rstd_out, const T* __restrict__ in,
                                        const T* __restrict__ weight, int64_t rows, int64_t columns, float epsilon) {
  const int64_t row = row_of_thread<kOneWarp>();
  if (kOneWarp && row >= rows) return;
  const auto *from = packets_of<N>(in + row * columns), *weights = packets_of<N>(weight);
  auto* to = packets_of<N>(out + row * columns);
  const int64_t count = columns / N;
  float squares = 0;
  for (int64_t p = threadIdx.x; p < count; p += blockDim.x) {
    const Packet<T, N> x = from[p];
#pragma unroll
    for (int i = 0; i < N; ++i) squares += to_float(x.values[i]) * to_float(x.values[i]);
  }
  squares = combine_row_threads<kOneWarp>(squares, Add());
  const float rstd = rsqrtf(squares / static_cast<float>(columns) + epsilon);
  for (int64_t p = threadIdx.x; p < count; p += blockDim.x) {
    Packet<T, N> x = from[p];
    const Packet<T, N> w = weights[p];
#pragma unroll
    for (int i = 0; i < N; ++i) x.values[i] = from_float<T>(to_float(x.values[i]) * rstd * to_float(w.values[i]));
    to[p] = x;
  }
  if (threadIdx.x == 0) rstd_out[row] = rstd;
}

}  // namespace tenfold::kernels
