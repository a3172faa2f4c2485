#pragma once
// Five ways to the softmax of a row. Row-major (rows, columns); see softmax.h.

#include "kernels/online_softmax.cuh"
#include "kernels/rows.cuh"

namespace tenfold::kernels {

/// Rung 0: a thread per row, in three passes: the largest value, the sum, the result. In each load the 32 lanes of a
/// warp read 32 rows, so each lane's 4 bytes cost a sector of 32 bytes, and only as many threads as rows hide the
/// latency.
template <class T>
static __global__ void softmax_thread_per_row(T* __restrict__ out, const T* __restrict__ in, int64_t rows,
                                              int64_t columns) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  in += row * columns;
  out += row * columns;
  float largest = -INFINITY;
  for (int64_t c = 0; c < columns; ++c) largest = fmaxf(largest, to_float(in[c]));
  float sum = 0;
  for (int64_t c = 0; c < columns; ++c) sum += expf(to_float(in[c]) - largest);
  const float scale = 1 / sum;
  for (int64_t c = 0; c < columns; ++c) out[c] = from_float<T>(expf(to_float(in[c]) - largest) * scale);
}

/// Rung 1: a warp per row. The lanes read neighbours, so a request of 32 floats is 4 full sectors; shuffles join what
/// the lanes found. Still three passes: the row comes from memory once and twice from a cache, if it fits in one.
template <class T>
static __global__ void softmax_warp_per_row(T* __restrict__ out, const T* __restrict__ in, int64_t rows,
                                            int64_t columns) {
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (row >= rows) return;  // a whole warp leaves
  in += row * columns;
  out += row * columns;
  float largest = -INFINITY;
  for (int64_t c = lane; c < columns; c += 32) largest = fmaxf(largest, to_float(in[c]));
  largest = combine_warp(largest, Larger());
  float sum = 0;
  for (int64_t c = lane; c < columns; c += 32) sum += expf(to_float(in[c]) - largest);
  sum = combine_warp(sum, Add());
  const float scale = 1 / sum;
  for (int64_t c = lane; c < columns; c += 32) out[c] = from_float<T>(expf(to_float(in[c]) - largest) * scale);
}

/// Rung 2: online. One pass finds the largest value and the sum together, so the row is read twice instead of three
/// times; the price is a second exp for every value, which a memory-bound kernel has time for.
template <class T>
static __global__ void softmax_online(T* __restrict__ out, const T* __restrict__ in, int64_t rows, int64_t columns) {
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (row >= rows) return;
  in += row * columns;
  out += row * columns;
  LargestAndSum found{-INFINITY, 0};
  for (int64_t c = lane; c < columns; c += 32) found = JoinLargestAndSum()(found, {to_float(in[c]), 1.0F});
  found = combine_warp(found, JoinLargestAndSum());
  const float scale = 1 / found.sum;
  for (int64_t c = lane; c < columns; c += 32) out[c] = from_float<T>(expf(to_float(in[c]) - found.largest) * scale);
}

/// Rung 3: a block per row, and N values at a time, 16 bytes: a quarter of the requests for floats, and more bytes in
/// flight. Online as before, but the sum is rescaled once per packet instead of once per value. An exponential is one
/// power of two from here on (exp_below), of three instructions and no branch.
template <class T, int N>
static __global__ void softmax_streamed(T* __restrict__ out, const T* __restrict__ in, int64_t columns) {
  const auto* from = packets_of<N>(in + blockIdx.x * columns);
  auto* to = packets_of<N>(out + blockIdx.x * columns);
  const int64_t count = columns / N;
  LargestAndSum found{-INFINITY, 0};
  for (int64_t p = threadIdx.x; p < count; p += blockDim.x) {
    const Packet<T, N> packet = from[p];
    found = join_packet(found, packet);
  }
  found = join_block(found, JoinLargestAndSum());
  const float scale = 1 / found.sum;
  for (int64_t p = threadIdx.x; p < count; p += blockDim.x) {
    Packet<T, N> packet = from[p];
#pragma unroll
    for (int i = 0; i < N; ++i)
      packet.values[i] = from_float<T>(exp_below(to_float(packet.values[i]), found.largest) * scale);
    to[p] = packet;
  }
}

/// Values that a thread of rung 4 keeps in registers.
inline constexpr int kSoftmaxHeld = 16;

/// Rung 4, rows of at most 16 values per thread: the row stays in registers, so that memory is read once, and nothing
/// is online: the largest value first, then the sum.
template <class T, int N, bool kOneWarp>
static __global__ void softmax_held(T* __restrict__ out, const T* __restrict__ in, int64_t rows, int64_t columns) {
  constexpr int kPackets = kSoftmaxHeld / N;
  const int64_t row = row_of_thread<kOneWarp>();
  if (kOneWarp && row >= rows) return;
  const auto* from = packets_of<N>(in + row * columns);
  auto* to = packets_of<N>(out + row * columns);
  const int64_t count = columns / N;
  const auto place = [](int p) { return static_cast<int64_t>(p * blockDim.x + threadIdx.x); };
  float held[kSoftmaxHeld];
  float largest = -INFINITY;
#pragma unroll
  for (int p = 0; p < kPackets; ++p) {
    if (place(p) < count) {
      const Packet<T, N> packet = from[place(p)];
#pragma unroll
      for (int i = 0; i < N; ++i) {
        held[p * N + i] = to_float(packet.values[i]);
        largest = fmaxf(largest, held[p * N + i]);
      }
    }
  }
  largest = combine_row_threads<kOneWarp>(largest, Larger());
  float sum = 0;
#pragma unroll
  for (int p = 0; p < kPackets; ++p) {
    if (place(p) < count) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        held[p * N + i] = exp_below(held[p * N + i], largest);  // of -infinity alone NaN, as it should be
        sum += held[p * N + i];
      }
    }
  }
  const float scale = 1 / combine_row_threads<kOneWarp>(sum, Add());
#pragma unroll
  for (int p = 0; p < kPackets; ++p) {
    if (place(p) < count) {
      Packet<T, N> packet;
#pragma unroll
      for (int i = 0; i < N; ++i) packet.values[i] = from_float<T>(held[p * N + i] * scale);
      to[place(p)] = packet;
    }
  }
}

/// A block per row, or kShortRows: the sum of grad_out * out first, then the gradient. The second read of both comes
/// from a cache.
template <class T, int N, bool kOneWarp>
static __global__ void softmax_gradient(T* grad_in, const T* grad_out, const T* out, int64_t rows, int64_t columns) {
  const int64_t row = row_of_thread<kOneWarp>();
  if (kOneWarp && row >= rows) return;
  const auto *grads = packets_of<N>(grad_out + row * columns), *results = packets_of<N>(out + row * columns);
  auto* to = packets_of<N>(grad_in + row * columns);
  const int64_t count = columns / N;
  float sum = 0;
  for (int64_t p = threadIdx.x; p < count; p += blockDim.x) {
    const Packet<T, N> g = grads[p];
    const Packet<T, N> y = results[p];
#pragma unroll
    for (int i = 0; i < N; ++i) sum += to_float(g.values[i]) * to_float(y.values[i]);
  }
  sum = combine_row_threads<kOneWarp>(sum, Add());
  for (int64_t p = threadIdx.x; p < count; p += blockDim.x) {
    const Packet<T, N> g = grads[p];
    const Packet<T, N> y = results[p];
    Packet<T, N> result;
#pragma unroll
    for (int i = 0; i < N; ++i) result.values[i] = from_float<T>(to_float(y.values[i]) * (to_float(g.values[i]) - sum));
    to[p] = result;
  }
}

}  // namespace tenfold::kernels
