#pragma once
// Three ways to gather rows of a table, and four to add gradients back to them. All row-major; see embedding.h.

#include "embedding.h"
#include "kernels/column_sums.cuh"
#include "kernels/rows.cuh"

namespace tenfold::kernels {

/// Rung 0: a thread per token. A warp's lanes copy 32 different rows, so each lane's 4 bytes cost a sector of 32 bytes,
/// on both sides.
template <class T>
static __global__ void embedding_thread_per_token(T* __restrict__ out, const T* __restrict__ weight,
                                                  const int64_t* __restrict__ ids, int64_t tokens, int64_t width,
                                                  int64_t vocabulary) {
  const int64_t token = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (token >= tokens) return;
  const int64_t id = ids[token];
  const bool known = id >= 0 && id < vocabulary;
  for (int64_t c = 0; c < width; ++c) out[token * width + c] = known ? weight[id * width + c] : from_float<T>(NAN);
}

/// Rung 1: a block per token. Lanes copy neighbours: the rows lie anywhere, but within a row a request of 32 floats is
/// 4 full sectors.
template <class T>
static __global__ void embedding_block_per_token(T* __restrict__ out, const T* __restrict__ weight,
                                                 const int64_t* __restrict__ ids, int64_t width, int64_t vocabulary) {
  const int64_t token = blockIdx.x, id = ids[token];
  const bool known = id >= 0 && id < vocabulary;
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
    out[token * width + c] = known ? weight[id * width + c] : from_float<T>(NAN);
  }
}

/// Rung 2: N values at a time, 16 bytes where the rows allow it: the same sectors in a quarter of the requests (an
/// eighth for halves). Of short rows a block has several, a warp for each.
template <class T, int N>
static __global__ void embedding_packets(T* __restrict__ out, const T* __restrict__ weight,
                                         const int64_t* __restrict__ ids, int64_t tokens, int64_t width,
                                         int64_t vocabulary) {
  const int64_t token = row_of_thread(), count = width / N;
  if (token >= tokens) return;
  const int64_t id = ids[token];
  const bool known = id >= 0 && id < vocabulary;
  const auto* from = packets_of<N>(weight);
  auto* to = packets_of<N>(out);
  for (int64_t p = threadIdx.x; p < count; p += blockDim.x) {
    Packet<T, N> values;
    if (known) {
      values = from[id * count + p];
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) values.values[i] = from_float<T>(NAN);
    }
    to[token * count + p] = values;
  }
}

/// The token at a place of the ids.
__device__ inline int64_t token_at(const int64_t* order, int64_t place) {
  return order == nullptr ? place : order[place];
}

/// Backward, rung 0: a block per token adds its gradient, atomically because other tokens may have the same id. A
/// frequent id makes its atomics queue for the same addresses, and float additions in another order round otherwise.
static __global__ void embedding_gradient_atomic(float* grad_weight, const float* __restrict__ grad_out,
                                                 const int64_t* __restrict__ ids, const int64_t* __restrict__ order,
                                                 int64_t width, int64_t vocabulary) {
  const int64_t token = token_at(order, blockIdx.x), id = ids[blockIdx.x];
  if (id < 0 || id >= vocabulary) return;
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x)
    atomicAdd(&grad_weight[id * width + c], grad_out[token * width + c]);
}

/// The id at this place of the ascending ids if a run of equal ids begins there and the table has it, else -1.
__device__ inline int64_t run_that_begins(const int64_t* ids, int64_t place, int64_t vocabulary) {
  const int64_t id = ids[place];
  if (id < 0 || id >= vocabulary) return -1;
  return place > 0 && ids[place - 1] == id ? -1 : id;
}

/// Backward, rung 1: a block per place of the ids; those where a run of equal ids begins add up the whole run, the
/// others leave at once. Only one block touches a row, so it needs no atomics, writes the row once, and always adds in
/// the same order. A long run keeps one block busy alone, one row after the other.
template <class T>
static __global__ void embedding_gradient_runs(T* grad_weight, const T* __restrict__ grad_out,
                                               const int64_t* __restrict__ ids, const int64_t* __restrict__ order,
                                               int64_t tokens, int64_t width, int64_t vocabulary) {
  const int64_t begin = blockIdx.x, id = run_that_begins(ids, begin, vocabulary);
  if (id < 0) return;
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
    float sum = to_float(grad_weight[id * width + c]);
    for (int64_t place = begin; place < tokens && ids[place] == id; ++place) {
      sum += to_float(grad_out[token_at(order, place) * width + c]);
    }
    grad_weight[id * width + c] = from_float<T>(sum);
  }
}

/// Backward, rung 2: blocks of 32 threads across N columns each and 8 down the run: eight rows are on their way at
/// once, in accesses of 16 bytes, and the eight sums meet in shared memory, in a fixed order (column_sums.cuh).
template <class T, int N>
static __global__ void embedding_gradient_packets(T* grad_weight, const T* __restrict__ grad_out,
                                                  const int64_t* __restrict__ ids, const int64_t* __restrict__ order,
                                                  int64_t tokens, int64_t width, int64_t vocabulary) {
  const int64_t begin = blockIdx.x, id = run_that_begins(ids, begin, vocabulary);
  if (id < 0) return;               // the whole block leaves
  const int64_t count = width / N;  // of packets in a row
  const auto* grads = packets_of<N>(grad_out);
  for (int64_t first = static_cast<int64_t>(blockIdx.y) * kTileColumns; first < count;
       first += gridDim.y * kTileColumns) {
    const int64_t column = first + threadIdx.x;
    float sums[N] = {};
    if (column < count) {
      if (threadIdx.y == 0) {
        const Packet<T, N> before = packets_of<N>(grad_weight)[id * count + column];
#pragma unroll
        for (int i = 0; i < N; ++i) sums[i] = to_float(before.values[i]);
      }
      for (int64_t place = begin + threadIdx.y; place < tokens && ids[place] == id; place += kTileRows) {
        const Packet<T, N> g = grads[token_at(order, place) * count + column];
#pragma unroll
        for (int i = 0; i < N; ++i) sums[i] += to_float(g.values[i]);
      }
    }
    store_column_sums(grad_weight + id * width + first * N, sums, width - first * N);
  }
}

/// Sums of a packet of columns, added to a row of the table and rounded once.
template <class T, int N>
__device__ inline void add_to_row(Packet<T, N>* row, int64_t column, const float (&sums)[N]) {
  Packet<T, N> values = row[column];
#pragma unroll
  for (int i = 0; i < N; ++i) values.values[i] = from_float<T>(to_float(values.values[i]) + sums[i]);
  row[column] = values;
}

/// The same sums, in float, to or from a chunk's row of the workspace: 16 bytes at a time.
template <int N>
__device__ inline void store_sums(float* row, int64_t column, const float (&sums)[N]) {
  constexpr int kWide = N < 4 ? N : 4;
#pragma unroll
  for (int i = 0; i < N; i += kWide) {
    Packet<float, kWide> some;
#pragma unroll
    for (int j = 0; j < kWide; ++j) some.values[j] = sums[i + j];
    packets_of<kWide>(row)[(column * N + i) / kWide] = some;
  }
}
template <int N>
__device__ inline void add_sums(float (&sums)[N], const float* row, int64_t column) {
  constexpr int kWide = N < 4 ? N : 4;
#pragma unroll
  for (int i = 0; i < N; i += kWide) {
    const Packet<float, kWide> some = packets_of<kWide>(row)[(column * N + i) / kWide];
#pragma unroll
    for (int j = 0; j < kWide; ++j) sums[i + j] += some.values[j];
  }
}

/// Where the run of equal ids ends that has begun at or before `begin`: by steps that double and then halve, so that
/// the loads that wait for each other are as the logarithm of its length.
__device__ inline int64_t end_of_run(const int64_t* ids, int64_t begin, int64_t tokens) {
  const int64_t id = ids[begin];
  int64_t last = begin, step = 1;
  for (; last + step < tokens && ids[last + step] == id; step *= 2) last += step;
  for (; step > 0; step /= 2) {
    if (last + step < tokens && ids[last + step] == id) last += step;
  }
  return last + 1;
}

inline constexpr int kRowsInFlight = 8;  // of a thread, where a loop would wait for each

/// Backward, rung 3, first of two kernels: a block adds up kEmbeddingChunk places, whatever their ids: every block has
/// as much to do as the others, none leaves at once, and a thread has eight rows on their way. A run of equal ids that
/// lies within the chunk goes to the table. What a run from before has here goes to the chunk's first row of `parts`
/// (chunks, 2, width), what begins here and goes on to the second.
template <class T, int N>
static __global__ void embedding_gradient_chunks(T* grad_weight, float* __restrict__ parts,
                                                 const T* __restrict__ grad_out, const int64_t* __restrict__ ids,
                                                 const int64_t* __restrict__ order, int64_t tokens, int64_t width,
                                                 int64_t vocabulary) {
  const int64_t begin = blockIdx.x * kEmbeddingChunk,
                end = begin + kEmbeddingChunk < tokens ? begin + kEmbeddingChunk : tokens;
  const int64_t count = width / N;  // of packets in a row
  const auto* grads = packets_of<N>(grad_out);
  for (int64_t column = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x; column < count;
       column += gridDim.y * blockDim.x) {
    bool begins_here = begin == 0 || ids[begin - 1] != ids[begin];
    float sums[N] = {};
    for (int64_t first = begin; first < end; first += kRowsInFlight) {
      Packet<T, N> some[kRowsInFlight];
#pragma unroll
      for (int k = 0; k < kRowsInFlight; ++k) {
        if (first + k < end) some[k] = grads[token_at(order, first + k) * count + column];
      }
#pragma unroll
      for (int k = 0; k < kRowsInFlight; ++k) {
        const int64_t place = first + k;
        if (place >= end) break;
#pragma unroll
        for (int i = 0; i < N; ++i) sums[i] += to_float(some[k].values[i]);
        const int64_t id = ids[place];
        const bool ends_here = place + 1 == tokens || ids[place + 1] != id;
        if (!ends_here && place + 1 < end) continue;
        if (!begins_here || !ends_here) {
          store_sums(parts + (2 * int64_t{blockIdx.x} + (begins_here ? 1 : 0)) * width, column, sums);
        } else if (id >= 0 && id < vocabulary) {
          add_to_row(packets_of<N>(grad_weight) + id * count, column, sums);
        }
        begins_here = true;
#pragma unroll
        for (int i = 0; i < N; ++i) sums[i] = 0;
      }
    }
  }
}

/// Backward, rung 3, second kernel: a block per chunk; where a run begins that goes on to the next chunks, it joins
/// their parts, always in the same order.
template <class T, int N>
static __global__ void embedding_gradient_joins(T* grad_weight, const float* __restrict__ parts,
                                                const int64_t* __restrict__ ids, int64_t tokens, int64_t width,
                                                int64_t vocabulary) {
  const int64_t chunk = blockIdx.x, begin = chunk * kEmbeddingChunk, next = begin + kEmbeddingChunk;
  if (next >= tokens) return;
  const int64_t id = ids[next];
  const bool comes_from_before = begin > 0 && ids[begin - 1] == id;
  if (ids[next - 1] != id || comes_from_before || id < 0 || id >= vocabulary) return;
  const int64_t last = (end_of_run(ids, next, tokens) - 1) / kEmbeddingChunk, count = width / N;
  for (int64_t column = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x; column < count;
       column += gridDim.y * blockDim.x) {
    float sums[N] = {};
    add_sums(sums, parts + (2 * chunk + 1) * width, column);
#pragma unroll 4
    for (int64_t other = chunk + 1; other <= last; ++other) add_sums(sums, parts + 2 * other * width, column);
    add_to_row(packets_of<N>(grad_weight) + id * count, column, sums);
  }
}

}  // namespace tenfold::kernels
