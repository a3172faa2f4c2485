#pragma once
// The gradients of layer normalisation, and of its form without a mean (RMSNorm): one formula for both.
//
// With n = (in - mean) * rstd and g = grad_out * weight they are
//   grad_in     = rstd * (g - mean of g - n * mean of g * n), both means over the row,
//   grad_weight = sum over the rows of grad_out * n,
//   grad_bias   = sum over the rows of grad_out.
// Without a mean (kCentred false), `mean` and the mean of g are zero and there is no bias: those pointers are null. The
// kernels write (parts, columns) sums for weight and bias, which add_parts() (column_sums.cuh) joins: no atomics.

#include "column_sums.cuh"
#include "norm_backward.h"
#include "rows.cuh"

namespace tenfold::kernels {

/// Two sums over a row: of g, and of g * n.
struct alignas(8) TwoSums {  // moved as one, on a GPU as under the microscope
  float plain, with_normal;
};
__device__ inline TwoSums shuffle_xor(TwoSums value, int lanes) {
  return {shuffle_xor(value.plain, lanes), shuffle_xor(value.with_normal, lanes)};
}
/// What is added up for a row's two means; without a mean the second sum alone.
template <bool kCentred>
struct RowSums {
  using Type = TwoSums;
  static __device__ Type of(float plain, float with_normal) { return {plain, with_normal}; }
  static __device__ float plain(Type sums) { return sums.plain; }
  static __device__ float with_normal(Type sums) { return sums.with_normal; }
  __device__ Type operator()(Type a, Type b) const { return {a.plain + b.plain, a.with_normal + b.with_normal}; }
  template <class T>
  static __device__ T nothing() {
    return {};
  }
};
template <>
struct RowSums<false> {
  using Type = float;
  static __device__ Type of(float /*plain*/, float with_normal) { return with_normal; }
  static __device__ float plain(Type /*sum*/) { return 0; }
  static __device__ float with_normal(Type sum) { return sum; }
  __device__ Type operator()(Type a, Type b) const { return a + b; }
  template <class T>
  static __device__ T nothing() {
    return 0;
  }
};

/// Rung 0, first of two kernels: grad_in, a block per row. Both means first, then the result, which reads the row again
/// from a cache.
template <class T, int N, bool kCentred>
static __global__ void norm_input_gradient(T* __restrict__ grad_in, const T* __restrict__ grad_out,
                                           const T* __restrict__ in, const float* __restrict__ mean_in,
                                           const float* __restrict__ rstd_in, const T* __restrict__ weight,
                                           int64_t columns) {
  const int64_t row = blockIdx.x;
  const float mean = kCentred ? mean_in[row] : 0, rstd = rstd_in[row];
  const auto *grads = packets_of<N>(grad_out + row * columns), *from = packets_of<N>(in + row * columns),
             *weights = packets_of<N>(weight);
  auto* to = packets_of<N>(grad_in + row * columns);
  const int64_t count = columns / N;
  float plain = 0, with_normal = 0;
  for (int64_t p = threadIdx.x; p < count; p += blockDim.x) {
    const Packet<T, N> g = grads[p];
    const Packet<T, N> x = from[p];
    const Packet<T, N> w = weights[p];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float weighted = to_float(g.values[i]) * to_float(w.values[i]);
      plain += weighted;
      with_normal += weighted * (to_float(x.values[i]) - mean) * rstd;
    }
  }
  using Sums = RowSums<kCentred>;
  const auto sums = combine_block(Sums::of(plain, with_normal), Sums());
  const float share = 1 / static_cast<float>(columns), mean_plain = Sums::plain(sums) * share,
              mean_with_normal = Sums::with_normal(sums) * share;
  for (int64_t p = threadIdx.x; p < count; p += blockDim.x) {
    const Packet<T, N> g = grads[p];
    const Packet<T, N> x = from[p];
    const Packet<T, N> w = weights[p];
    Packet<T, N> result;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float weighted = to_float(g.values[i]) * to_float(w.values[i]),
                  normal = (to_float(x.values[i]) - mean) * rstd;
      result.values[i] = from_float<T>(rstd * (weighted - mean_plain - normal * mean_with_normal));
    }
    to[p] = result;
  }
}

/// Rung 0, second kernel: grad_out and the input once more, from DRAM. A grid of (column tiles, parts); each thread
/// keeps the sums of N columns in registers.
template <class T, int N, bool kCentred>
static __global__ void norm_weight_gradient_parts(float* __restrict__ weight_parts, float* __restrict__ bias_parts,
                                                  const T* __restrict__ grad_out, const T* __restrict__ in,
                                                  const float* __restrict__ mean, const float* __restrict__ rstd,
                                                  int64_t rows, int64_t columns) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTileColumns * N;
  const int64_t place = static_cast<int64_t>(blockIdx.x) * kTileColumns + threadIdx.x,
                count = columns / N;  // of packets in a row
  const auto *grads = packets_of<N>(grad_out), *from = packets_of<N>(in);
  float weight_sums[N] = {}, bias_sums[N] = {};
  if (place < count) {
    for (int64_t row = blockIdx.y * kTileRows + threadIdx.y; row < rows; row += gridDim.y * kTileRows) {
      const Packet<T, N> g = grads[row * count + place];
      const Packet<T, N> x = from[row * count + place];
      const float row_mean = kCentred ? mean[row] : 0, row_rstd = rstd[row];
#pragma unroll
      for (int i = 0; i < N; ++i) {
        weight_sums[i] += to_float(g.values[i]) * (to_float(x.values[i]) - row_mean) * row_rstd;
        bias_sums[i] += to_float(g.values[i]);
      }
    }
  }
  store_column_sums(weight_parts + blockIdx.y * columns + first, weight_sums, columns - first);
  if constexpr (kCentred) store_column_sums(bias_parts + blockIdx.y * columns + first, bias_sums, columns - first);
}

/// Columns that a thread of rung 1 holds, in packets of N, and the most threads of its blocks: rows of up to 8192
/// values. Half of it for single values, of which each takes a register until it is used.
template <int N>
inline constexpr int kNormHeld = N == 1 ? 8 : 16;
inline constexpr unsigned kNormThreads = 512;

/// Block of rung 1: whole warps across the columns, and for short rows up to 8 rows side by side, of 256 threads
/// together at most.
template <int N>
inline dim3 norm_block(int64_t columns) {
  constexpr int kOfWarp = 32 * kNormHeld<N>;
  const auto warps = static_cast<unsigned>((columns + kOfWarp - 1) / kOfWarp);
  return dim3(32 * warps, warps == 1 ? 8 : warps == 2 ? 4 : warps <= 4 ? 2 : 1);
}

/// The sums of the block's rows of threads joined by halving, and written by the first of them.
template <int K, int N>
__device__ inline void store_held_sums(float* to, float (&sums)[K][N], int count) {
  constexpr int kWide = N < 4 ? N : 4;     // of a packet's sums, 16 bytes at a time
  __shared__ float others[K * N][4 * 32];  // of half of 256 threads
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    const unsigned mine = threadIdx.y % half * blockDim.x + threadIdx.x;
    __syncthreads();  // somebody may still read the last half, or an earlier call's
#pragma unroll
    for (int j = 0; j < K * N; ++j) {
      if (threadIdx.y / half == 1) others[j][mine] = sums[j / N][j % N];
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < K * N; ++j) {
      if (threadIdx.y < half) sums[j / N][j % N] += others[j][mine];
    }
  }
  if (threadIdx.y != 0) return;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int place = static_cast<int>(k * blockDim.x + threadIdx.x);
    if (place >= count) break;
#pragma unroll
    for (int i = 0; i < N; i += kWide) {
      Packet<float, kWide> some;
#pragma unroll
      for (int j = 0; j < kWide; ++j) some.values[j] = sums[k][i + j];
      packets_of<kWide>(to)[(place * N + i) / kWide] = some;
    }
  }
}

/// Rung 1: everything in one kernel, so that grad_out and the input come from DRAM once: three passes instead of five.
/// A block walks over the rows; a thread has the same columns in each, and so keeps their sums in registers from the
/// first row to the last. The next row is on its way while this one's two means are found. One barrier a row: the
/// warps' sums go to two places in turn.
template <class T, int N, bool kCentred>
static __global__ void __launch_bounds__(kNormThreads, 1)  // else ptxas for 8.0 goes for two, and spills 12 bytes
    norm_backward_held(T* __restrict__ grad_in, float* __restrict__ weight_parts, float* __restrict__ bias_parts,
                       const T* __restrict__ grad_out, const T* __restrict__ in, const float* __restrict__ mean_in,
                       const float* __restrict__ rstd_in, const T* __restrict__ weight, int64_t rows, int64_t columns) {
  constexpr int K = kNormHeld<N> / N;  // packets
  using Sums = RowSums<kCentred>;
  __shared__ typename Sums::Type of_warps[2][kNormThreads / 32];
  const int count = static_cast<int>(columns / N);
  const auto place = [](int k) { return static_cast<int>(k * blockDim.x + threadIdx.x); };
  const auto *grads = packets_of<N>(grad_out), *from = packets_of<N>(in), *weights = packets_of<N>(weight);
  const unsigned warps = blockDim.x / 32, first_warp = threadIdx.y * warps;
  const float share = 1 / static_cast<float>(columns);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
  float weight_sums[K][N] = {}, bias_sums[K][N] = {};

  Packet<T, N> next_g[K], next_x[K];
  float next_mean = 0, next_rstd = 0;  // of the last rows of threads some have no row
  const auto start = [&](int64_t row) {
    if (row >= rows) return;
    if (kCentred) next_mean = mean_in[row];
    next_rstd = rstd_in[row];
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (place(k) >= count) break;
      next_g[k] = grads[row * count + place(k)];
      next_x[k] = from[row * count + place(k)];
    }
  };
  int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  start(row);
  int turn = 0;
  for (int64_t rest = rows - static_cast<int64_t>(blockIdx.x) * blockDim.y; rest > 0; rest -= step) {
    Packet<T, N> g[K], x[K];
#pragma unroll
    for (int k = 0; k < K; ++k) g[k] = next_g[k], x[k] = next_x[k];
    const float mean = next_mean, rstd = next_rstd;
    start(row + step);

    const bool there = row < rows;
    float plain = 0, with_normal = 0;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (!there || place(k) >= count) break;
      const Packet<T, N> w = weights[place(k)];
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float grad = to_float(g[k].values[i]), normal = (to_float(x[k].values[i]) - mean) * rstd;
        const float weighted = grad * to_float(w.values[i]);
        plain += weighted;
        with_normal += weighted * normal;
        weight_sums[k][i] += grad * normal;
        bias_sums[k][i] += grad;
      }
    }
    auto sums = combine_warp(Sums::of(plain, with_normal), Sums());
    if (threadIdx.x % 32 == 0) of_warps[turn][first_warp + threadIdx.x / 32] = sums;
    __syncthreads();
    sums = combine_warps<kNormThreads / 32, 1>(&of_warps[turn][first_warp], warps, Sums());  // 10.0 would spill
    turn ^= 1;

    const float mean_plain = Sums::plain(sums) * share, mean_with_normal = Sums::with_normal(sums) * share;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (!there || place(k) >= count) break;
      const Packet<T, N> w = weights[place(k)];
      Packet<T, N> result;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float weighted = to_float(g[k].values[i]) * to_float(w.values[i]),
                    normal = (to_float(x[k].values[i]) - mean) * rstd;
        result.values[i] = from_float<T>(rstd * (weighted - mean_plain - normal * mean_with_normal));
      }
      packets_of<N>(grad_in)[row * count + place(k)] = result;
    }
    row += step;
  }
  store_held_sums(weight_parts + blockIdx.x * columns, weight_sums, count);
  if constexpr (kCentred) store_held_sums(bias_parts + blockIdx.x * columns, bias_sums, count);
}

/// Both rungs' launches. `sums` has room for (parts, columns) floats, twice where there is a bias.
template <bool kCentred, class T, int N, class Stream>
void launch_norm_backward(Stream stream, T* grad_in, T* grad_weight, T* grad_bias, float* sums, const T* grad_out,
                          const T* in, const float* mean, const float* rstd, const T* weight, int64_t rows,
                          int64_t columns, int rung) {
  const int64_t parts = norm_parts(rows);
  float *weight_parts = sums, *bias_parts = kCentred ? sums + parts * columns : nullptr;
  const dim3 of_columns(kTileColumns, kTileRows);
  if (rung == 0 || columns > kNormHeld<N> * int64_t{kNormThreads}) {
    launch(stream, static_cast<unsigned>(rows), threads_for_row(columns), 0, norm_input_gradient<T, N, kCentred>,
           grad_in, grad_out, in, mean, rstd, weight, columns);
    const dim3 tiles(blocks_for(columns, kTileColumns * N), static_cast<unsigned>(parts));
    launch(stream, tiles, of_columns, 0, norm_weight_gradient_parts<T, N, kCentred>, weight_parts, bias_parts, grad_out,
           in, mean, rstd, rows, columns);
  } else {
    launch(stream, static_cast<unsigned>(parts), norm_block<N>(columns), 0, norm_backward_held<T, N, kCentred>, grad_in,
           weight_parts, bias_parts, grad_out, in, mean, rstd, weight, rows, columns);
  }
  const unsigned tiles = blocks_for(columns, kTileColumns);
  launch(stream, tiles, of_columns, 0, add_parts<T>, grad_weight, weight_parts, parts, columns);
  if (kCentred) launch(stream, tiles, of_columns, 0, add_parts<T>, grad_bias, bias_parts, parts, columns);
}

/// The same, in packets of 16 bytes where the arrays allow them. Throws std::invalid_argument as the norms' own
/// launchers say.
template <bool kCentred, class T, class Stream>
void norm_backward(const char* name, Stream stream, T* grad_in, T* grad_weight, T* grad_bias, float* sums,
                   const T* grad_out, const T* in, const float* mean, const float* rstd, const T* weight, int64_t rows,
                   int64_t columns, int rung) {
  check_rows(name, rows, columns);
  if (rung < 0 || rung >= kNormBackwardRungs) throw no_such_rung(name, rung, kNormBackwardRungs);
  const bool fit = packets_fit<T>(columns, {grad_in, grad_out, in, weight, sums});
  const auto run =
      fit ? launch_norm_backward<kCentred, T, kPacket<T>, Stream> : launch_norm_backward<kCentred, T, 1, Stream>;
  run(stream, grad_in, grad_weight, grad_bias, sums, grad_out, in, mean, rstd, weight, rows, columns, rung);
}

}  // namespace tenfold::kernels
