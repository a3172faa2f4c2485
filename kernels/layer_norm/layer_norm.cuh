#pragma once
// Five ways to normalise a row, and the gradients. Row-major (rows, columns); see layer_norm.h.

#include "kernels/join_block.cuh"
#include "kernels/rows.cuh"

namespace tenfold::kernels {

/// Rung 0: a thread per row: one pass for the mean, one for the variance, one for the result. A warp's lanes read 32
/// different rows, so each lane's 4 bytes cost a sector of 32 bytes.
template <class T>
static __global__ void layer_norm_thread_per_row(T* __restrict__ out, float* __restrict__ mean_out,
                                                 float* __restrict__ rstd_out, const T* __restrict__ in,
                                                 const T* __restrict__ weight, const T* __restrict__ bias, int64_t rows,
                                                 int64_t columns, float epsilon) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  in += row * columns;
  out += row * columns;
  float sum = 0;
  for (int64_t c = 0; c < columns; ++c) sum += to_float(in[c]);
  const float mean = sum / static_cast<float>(columns);
  float squares = 0;
  for (int64_t c = 0; c < columns; ++c) {
    const float off = to_float(in[c]) - mean;
    squares += off * off;
  }
  const float rstd = rsqrtf(squares / static_cast<float>(columns) + epsilon);
  for (int64_t c = 0; c < columns; ++c) {
    out[c] = from_float<T>((to_float(in[c]) - mean) * rstd * to_float(weight[c]) + to_float(bias[c]));
  }
  mean_out[row] = mean;
  rstd_out[row] = rstd;
}

/// Threads of rung 1's blocks, a power of two.
inline constexpr unsigned kTreeThreads = 256;

/// The sum over a block of kTreeThreads, halving the number of threads that add: a barrier for each of eight steps.
__device__ inline float tree_sum(float value) {
  __shared__ float partial[kTreeThreads];
  __syncthreads();  // somebody may still read an earlier call's sum
  partial[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = kTreeThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  return partial[0];
}

/// Rung 1: a block per row. Lanes read neighbours, so a request of 32 floats is 4 full sectors, and the row stays in
/// the multiprocessor's cache between the passes; the sums meet in shared memory, in twenty barriers.
template <class T>
static __global__ void layer_norm_shared(T* __restrict__ out, float* __restrict__ mean_out,
                                         float* __restrict__ rstd_out, const T* __restrict__ in,
                                         const T* __restrict__ weight, const T* __restrict__ bias, int64_t columns,
                                         float epsilon) {
  const int64_t row = blockIdx.x;
  in += row * columns;
  out += row * columns;
  float sum = 0;
  for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) sum += to_float(in[c]);
  const float mean = tree_sum(sum) / static_cast<float>(columns);
  float squares = 0;
  for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
    const float off = to_float(in[c]) - mean;
    squares += off * off;
  }
  const float rstd = rsqrtf(tree_sum(squares) / static_cast<float>(columns) + epsilon);
  for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
    out[c] = from_float<T>((to_float(in[c]) - mean) * rstd * to_float(weight[c]) + to_float(bias[c]));
  }
  if (threadIdx.x == 0) {
    mean_out[row] = mean;
    rstd_out[row] = rstd;
  }
}

/// Mean and sum of squared differences from it, of some values. Unlike sums of x and x * x these lose nothing when the
/// mean is large beside the deviation.
struct Moments {
  float count, mean, squares;
};
struct JoinMoments {
  __device__ Moments operator()(Moments a, Moments b) const {
    const float count = a.count + b.count;
    if (count == 0) return a;
    const float share = b.count / count, between = b.mean - a.mean;
    return {count, a.mean + between * share, a.squares + b.squares + (between * a.count) * (between * share)};
  }
};
__device__ inline Moments shuffle_xor(Moments value, int lanes) {
  return {shuffle_xor(value.count, lanes), shuffle_xor(value.mean, lanes), shuffle_xor(value.squares, lanes)};
}

__device__ inline Moments of_first_lane(Moments value) {
  return {of_first_lane(value.count), of_first_lane(value.mean), of_first_lane(value.squares)};
}

/// Rung 2: mean and variance in one pass by Welford's update, joined by Chan's formula in shuffles: the row is read
/// twice instead of three times, and two barriers replace twenty.
template <class T>
static __global__ void layer_norm_one_pass(T* __restrict__ out, float* __restrict__ mean_out,
                                           float* __restrict__ rstd_out, const T* __restrict__ in,
                                           const T* __restrict__ weight, const T* __restrict__ bias, int64_t columns,
                                           float epsilon) {
  const int64_t row = blockIdx.x;
  in += row * columns;
  out += row * columns;
  Moments found{0, 0, 0};
  for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
    const float value = to_float(in[c]), off = value - found.mean;
    found.count += 1;
    found.mean += off / found.count;
    found.squares += off * (value - found.mean);
  }
  found = join_block(found, JoinMoments());
  const float mean = found.mean, rstd = rsqrtf(found.squares / static_cast<float>(columns) + epsilon);
  for (int64_t c = threadIdx.x; c < columns; c += blockDim.x) {
    out[c] = from_float<T>((to_float(in[c]) - mean) * rstd * to_float(weight[c]) + to_float(bias[c]));
  }
  if (threadIdx.x == 0) {
    mean_out[row] = mean;
    rstd_out[row] = rstd;
  }
}

/// Rung 3: N values at a time, 16 bytes where the rows allow it: a quarter of the requests for floats, and one division
/// for N values instead of one for each.
template <class T, int N>
static __global__ void layer_norm_packets(T* __restrict__ out, float* __restrict__ mean_out,
                                          float* __restrict__ rstd_out, const T* __restrict__ in,
                                          const T* __restrict__ weight, const T* __restrict__ bias, int64_t columns,
                                          float epsilon) {
  const int64_t row = blockIdx.x;
  const auto *from = packets_of<N>(in + row * columns), *weights = packets_of<N>(weight), *biases = packets_of<N>(bias);
  auto* to = packets_of<N>(out + row * columns);
  const int64_t count = columns / N;
  Moments found{0, 0, 0};
  for (int64_t p = threadIdx.x; p < count; p += blockDim.x) {
    const Packet<T, N> x = from[p];
    Moments packet{N, 0, 0};
#pragma unroll
    for (int i = 0; i < N; ++i) packet.mean += to_float(x.values[i]);
    packet.mean /= N;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float off = to_float(x.values[i]) - packet.mean;
      packet.squares += off * off;
    }
    found = JoinMoments()(found, packet);
  }
  found = join_block(found, JoinMoments());
  const float mean = found.mean, rstd = rsqrtf(found.squares / static_cast<float>(columns) + epsilon);
  for (int64_t p = threadIdx.x; p < count; p += blockDim.x) {
    Packet<T, N> x = from[p];
    const Packet<T, N> w = weights[p];
    const Packet<T, N> b = biases[p];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      x.values[i] =
          from_float<T>((to_float(x.values[i]) - mean) * rstd * to_float(w.values[i]) + to_float(b.values[i]));
    }
    to[p] = x;
  }
  if (threadIdx.x == 0) {
    mean_out[row] = mean;
    rstd_out[row] = rstd;
  }
}

/// Packets that a thread of rung 4 keeps in registers.
inline constexpr int kLayerNormHeld = 4;

/// Rung 4: the row stays in registers, so that two plain sums do: first the mean, then the squared differences from it.
/// Neither divides, so a join is one addition instead of thirty instructions, and the row is read once. A quarter of
/// the threads, with four packets each, make a quarter of the joins. A row that fits into one warp (kOneWarp) needs
/// neither shared memory nor a barrier, and a block then has kShortRows of them.
template <class T, int N, bool kOneWarp>
static __global__ void layer_norm_held(T* __restrict__ out, float* __restrict__ mean_out, float* __restrict__ rstd_out,
                                       const T* __restrict__ in, const T* __restrict__ weight,
                                       const T* __restrict__ bias, int64_t rows, int64_t columns, float epsilon) {
  const int64_t row = row_of_thread<kOneWarp>();
  if (kOneWarp && row >= rows) return;
  const auto *from = packets_of<N>(in + row * columns), *weights = packets_of<N>(weight), *biases = packets_of<N>(bias);
  auto* to = packets_of<N>(out + row * columns);
  const int count = static_cast<int>(columns / N);
  const auto place = [](int k) { return static_cast<int>(k * blockDim.x + threadIdx.x); };
  const float share = 1 / static_cast<float>(columns);
  Packet<T, N> x[kLayerNormHeld];
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kLayerNormHeld; ++k) {
    if (place(k) >= count) break;
    x[k] = from[place(k)];
#pragma unroll
    for (int i = 0; i < N; ++i) sum += to_float(x[k].values[i]);
  }
  const float mean = combine_row_threads<kOneWarp>(sum, Add()) * share;
  float squares = 0;
#pragma unroll
  for (int k = 0; k < kLayerNormHeld; ++k) {
    if (place(k) >= count) break;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float off = to_float(x[k].values[i]) - mean;
      squares += off * off;
    }
  }
  const float rstd = rsqrtf(combine_row_threads<kOneWarp>(squares, Add()) * share + epsilon);
#pragma unroll
  for (int k = 0; k < kLayerNormHeld; ++k) {
    if (place(k) >= count) break;
    const Packet<T, N> w = weights[place(k)], b = biases[place(k)];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      x[k].values[i] =
          from_float<T>((to_float(x[k].values[i]) - mean) * rstd * to_float(w.values[i]) + to_float(b.values[i]));
    }
    to[place(k)] = x[k];
  }
  if (threadIdx.x == 0) {
    mean_out[row] = mean;
    rstd_out[row] = rstd;
  }
}

}  // namespace tenfold::kernels
