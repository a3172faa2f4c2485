#pragma once
// Three ways to rotate pairs in place. (tokens, heads, head_dim), row-major; see rope.h. `turn` is 1, or -1 for
// backward.

#include "kernels/rows.cuh"

namespace tenfold::kernels {

/// Pairs that a block of rung 0 does at a time: two threads for each.
inline constexpr unsigned kRopePairs = 64;

/// Rung 0: a thread per element, a block per head. Each thread needs its partner's value as well, so every value and
/// every entry of the tables is read twice, and again for each head; and since the results go where the values were,
/// all threads of a pair must have read before one writes: a barrier.
template <class T>
static __global__ void rope_element(T* values, const float* __restrict__ cosines, const float* __restrict__ sines,
                                    int64_t heads, int64_t half, int64_t positions, float turn) {
  T* head = values + static_cast<int64_t>(blockIdx.x) * 2 * half;
  const int64_t row = static_cast<int64_t>(blockIdx.x) / heads % positions * half;  // of the tables
  const bool second = threadIdx.x >= kRopePairs;
  for (int64_t base = 0; base < half;
       base += kRopePairs) {  // the pairs of two rounds are different: one barrier is enough
    const int64_t pair = base + threadIdx.x % kRopePairs,
                  from = min(pair, half - 1);  // past the end: read, but do not write
    const int64_t here = second ? from + half : from, there = second ? from : from + half;
    const float mine = to_float(head[here]), other = to_float(head[there]), sine = turn * sines[row + from];
    const float result = mine * cosines[row + from] + (second ? other : -other) * sine;
    __syncthreads();
    if (pair < half) head[here] = from_float<T>(result);
  }
}

/// Rung 1: a thread per pair of a token, for all heads. It alone reads and writes the pair, so there is no barrier,
/// each value is read once, and the pair's two entries of the tables once for all heads.
template <class T>
static __global__ void rope_pair(T* values, const float* __restrict__ cosines, const float* __restrict__ sines,
                                 int64_t tokens, int64_t heads, int64_t half, int64_t positions, float turn) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t token = thread / half, pair = thread % half;
  if (token >= tokens) return;
  const int64_t entry = token % positions * half + pair;
  const float cosine = cosines[entry], sine = turn * sines[entry];
  T* first = values + token * heads * 2 * half + pair;
  for (int64_t head = 0; head < heads; ++head, first += 2 * half) {
    const float a = to_float(first[0]), b = to_float(first[half]);
    first[0] = from_float<T>(a * cosine - b * sine);
    first[half] = from_float<T>(b * cosine + a * sine);
  }
}

/// N entries of a table, in packets of four floats at most.
template <int N>
__device__ inline void read_entries(float (&to)[N], const float* table, int64_t packet) {
  constexpr int kWidth = N < 4 ? N : 4;
#pragma unroll
  for (int p = 0; p < N / kWidth; ++p) {
    const Packet<float, kWidth> entries = packets_of<kWidth>(table)[packet * (N / kWidth) + p];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) to[p * kWidth + i] = entries.values[i];
  }
}

/// Rung 2: N neighbouring pairs per thread, 16 bytes at a time: a quarter of the requests for floats, an eighth for
/// halves, and as many more bytes in flight for each thread.
template <class T, int N>
static __global__ void rope_packets(T* values, const float* __restrict__ cosines, const float* __restrict__ sines,
                                    int64_t tokens, int64_t heads, int64_t half, int64_t positions, float turn) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t count = half / N, token = thread / count, place = thread % count;  // of packets in half a head
  if (token >= tokens) return;
  float cosine[N], sine[N];
  read_entries(cosine, cosines, token % positions * count + place);
  read_entries(sine, sines, token % positions * count + place);
#pragma unroll
  for (int i = 0; i < N; ++i) sine[i] *= turn;
  auto* first = packets_of<N>(values) + token * heads * 2 * count + place;
  for (int64_t head = 0; head < heads; ++head, first += 2 * count) {
    Packet<T, N> a = first[0];
    Packet<T, N> b = first[count];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float x = to_float(a.values[i]), y = to_float(b.values[i]);
      a.values[i] = from_float<T>(x * cosine[i] - y * sine[i]);
      b.values[i] = from_float<T>(y * cosine[i] + x * sine[i]);
    }
    first[0] = a;
    first[count] = b;
  }
}

}  // namespace tenfold::kernels
