#pragma once
// GELU of a matrix plus a bias, unfused and fused. Row-major (rows, columns); see bias_gelu.h.
//
// All blocks are (32, 8): threadIdx.x goes along the columns and threadIdx.y down the rows, so that a thread stays in
// its column and reads its bias once.

#include "bias_gelu.h"
#include "kernels/column_sums.cuh"
#include "kernels/ptx.cuh"
#include "kernels/rows.cuh"

namespace tenfold::kernels {

inline constexpr float kSqrtHalf = 0.70710678118654752F;    // sqrt(1 / 2)
inline constexpr float kNormalPeak = 0.39894228040143268F;  // 1 / sqrt(2 pi)
inline constexpr float kTanhScale = 0.79788456080286536F;   // sqrt(2 / pi)
inline constexpr float kTanhCubic = 0.044715F;

template <Gelu form>
__device__ inline float gelu(float x) {
  if constexpr (form == Gelu::exact) {
    return 0.5F * x * (1 + erff(x * kSqrtHalf));
  } else {
    return 0.5F * x * (1 + tanhf(kTanhScale * x * (1 + kTanhCubic * x * x)));
  }
}

/// The same in fewer instructions. (1 + tanh(y)) / 2 is the logistic function of 2y: one power of two and one division
/// by the special function unit, where tanhf() has two formulas and a branch between them. erf has no such form.
template <Gelu form>
__device__ inline float gelu_short(float x) {
  if constexpr (form == Gelu::exact) {
    return gelu<form>(x);
  } else {
    constexpr float kLinear = -2 * kTanhScale * 1.4426950408889634F;  // log2(e): exp(x) = 2^(x log2(e))
    return __fdividef(x, 1 + exp2_approx(x * (kLinear + kLinear * kTanhCubic * x * x)));
  }
}

/// gelu's derivative at x.
template <Gelu form>
__device__ inline float gelu_slope(float x) {
  if constexpr (form == Gelu::exact) {
    return 0.5F * (1 + erff(x * kSqrtHalf)) + x * kNormalPeak * expf(-0.5F * x * x);
  } else {
    const float square = fminf(x * x, 1e6F);  // the slope is 0 or 1 long before; an overflow would make it 0 * infinity
    const float t = tanhf(kTanhScale * x * (1 + kTanhCubic * square));
    return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * kTanhScale * (1 + 3 * kTanhCubic * square);
  }
}

/// Rung 0, first kernel: out = in + bias. Reads and writes the whole matrix for one addition per value.
template <class T>
static __global__ void add_bias(T* __restrict__ out, const T* __restrict__ in, const T* __restrict__ bias, int64_t rows,
                                int64_t columns) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kTileColumns + threadIdx.x;
  if (column >= columns) return;
  const float b = to_float(bias[column]);
  for (int64_t row = blockIdx.y * kTileRows + threadIdx.y; row < rows; row += gridDim.y * kTileRows) {
    out[row * columns + column] = from_float<T>(to_float(in[row * columns + column]) + b);
  }
}

/// Rung 0, second kernel: gelu in place. Reads and writes the whole matrix again.
template <class T, Gelu form>
static __global__ void gelu_in_place(T* out, int64_t rows, int64_t columns) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kTileColumns + threadIdx.x;
  if (column >= columns) return;
  for (int64_t row = blockIdx.y * kTileRows + threadIdx.y; row < rows; row += gridDim.y * kTileRows) {
    out[row * columns + column] = from_float<T>(gelu<form>(to_float(out[row * columns + column])));
  }
}

/// Rung 1: fused. The sum stays in a register, so the matrix is read once and written once: half the traffic.
template <class T, Gelu form>
static __global__ void bias_gelu_fused(T* __restrict__ out, const T* __restrict__ in, const T* __restrict__ bias,
                                       int64_t rows, int64_t columns) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kTileColumns + threadIdx.x;
  if (column >= columns) return;
  const float b = to_float(bias[column]);
  for (int64_t row = blockIdx.y * kTileRows + threadIdx.y; row < rows; row += gridDim.y * kTileRows) {
    out[row * columns + column] = from_float<T>(gelu<form>(to_float(in[row * columns + column]) + b));
  }
}

/// Rung 2: N columns per thread, 16 bytes at a time: the same sectors in a quarter of the requests (an eighth for
/// halves), with more of them in flight. Rung 3, `kShort`: the same bytes, but less than half the instructions for each
/// value of bfloat16, which on an H200 take longer than the bytes.
template <class T, int N, Gelu form, bool kShort>
static __global__ void bias_gelu_packets(T* __restrict__ out, const T* __restrict__ in, const T* __restrict__ bias,
                                         int64_t rows, int64_t columns) {
  const int64_t place = static_cast<int64_t>(blockIdx.x) * kTileColumns + threadIdx.x,
                count = columns / N;  // of packets in a row
  if (place >= count) return;
  const auto* from = packets_of<N>(in);
  auto* to = packets_of<N>(out);
  const Packet<T, N> b = packets_of<N>(bias)[place];
  for (int64_t row = blockIdx.y * kTileRows + threadIdx.y; row < rows; row += gridDim.y * kTileRows) {
    Packet<T, N> x = from[row * count + place];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float sum = to_float(x.values[i]) + to_float(b.values[i]);
      x.values[i] = from_float<T>(kShort ? gelu_short<form>(sum) : gelu<form>(sum));
    }
    to[row * count + place] = x;
  }
}

/// grad_in, and on the way stage one of its column sums (kernels/column_sums.cuh): grad_in is not read again for
/// them.
template <class T, int N, Gelu form>
static __global__ void bias_gelu_gradient(T* __restrict__ grad_in, float* __restrict__ parts,
                                          const T* __restrict__ grad_out, const T* __restrict__ in,
                                          const T* __restrict__ bias, int64_t rows, int64_t columns) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTileColumns * N;
  const int64_t place = static_cast<int64_t>(blockIdx.x) * kTileColumns + threadIdx.x,
                count = columns / N;  // of packets in a row
  const auto *grads = packets_of<N>(grad_out), *from = packets_of<N>(in);
  auto* to = packets_of<N>(grad_in);
  float sums[N] = {};
  if (place < count) {
    const Packet<T, N> b = packets_of<N>(bias)[place];
    for (int64_t row = blockIdx.y * kTileRows + threadIdx.y; row < rows; row += gridDim.y * kTileRows) {
      const Packet<T, N> g = grads[row * count + place];
      Packet<T, N> x = from[row * count + place];
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float gradient = to_float(g.values[i]) * gelu_slope<form>(to_float(x.values[i]) + to_float(b.values[i]));
        sums[i] += gradient;
        x.values[i] = from_float<T>(gradient);
      }
      to[row * count + place] = x;
    }
  }
  store_column_sums(parts + blockIdx.y * columns + first, sums, columns - first);
}

}  // namespace tenfold::kernels
