#pragma once
// Three ways to pack rows and to unpack them. All row-major; see pack.h.

#include "kernels/rows.cuh"

namespace tenfold::kernels {

/// Where sequence `sequence` begins; the only place that reads cu_seqlens.
template <class Offset>
__device__ inline int64_t begin_of(const Offset* cu_seqlens, int64_t sequence) {
  return cu_seqlens[sequence];
}

/// Offsets may hold anything: their sums and differences wrap around, and are looked at before they are used.
__device__ inline int64_t wrapping_sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
__device__ inline int64_t wrapping_difference(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

/// The padded row, of all batch * length, that packed row `row` comes from; -1 where there is none. A search by halves,
/// for the last sequence that begins at or before `row`: of equal beginnings only the last has rows.
template <class Offset>
__device__ inline int64_t padded_row_of(const Offset* cu_seqlens, int64_t batch, int64_t length, int64_t row) {
  int64_t sequence = 0;
  for (int64_t end = batch; end - sequence > 1;) {  // it is in [sequence, end)
    const int64_t middle = (sequence + end) / 2;
    (begin_of(cu_seqlens, middle) <= row ? sequence : end) = middle;
  }
  const int64_t place = wrapping_difference(row, begin_of(cu_seqlens, sequence));
  const bool is_there = place >= 0 && place < length && row < begin_of(cu_seqlens, sequence + 1);
  return is_there ? sequence * length + place : -1;
}

/// The packed row that goes to padded row `row`; -1 where that is padding.
template <class Offset>
__device__ inline int64_t packed_row_of(const Offset* cu_seqlens, int64_t length, int64_t total, int64_t row) {
  const int64_t sequence = row / length, place = row % length;
  const int64_t from = wrapping_sum(begin_of(cu_seqlens, sequence), place), end = begin_of(cu_seqlens, sequence + 1);
  return from >= 0 && from < end && from < total ? from : -1;
}

/// Rung 0: a thread per element. Neighbours copy neighbours, so a load and a store of a warp are 4 full sectors each;
/// but each thread searches for its row alone, with about log2(batch) loads, one after the other, before it moves 4
/// bytes.
template <class T, class Offset>
static __global__ void pack_elements(T* __restrict__ packed, const T* __restrict__ padded,
                                     const Offset* __restrict__ cu_seqlens, int64_t batch, int64_t length,
                                     int64_t width, int64_t total) {
  const int64_t element = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (element >= total * width) return;
  const int64_t from = padded_row_of(cu_seqlens, batch, length, element / width);
  packed[element] = from < 0 ? from_float<T>(NAN) : padded[from * width + element % width];
}

/// Rung 1 (N = 1): a block per packed row, or for several short ones. One thread of a row searches, and the others get
/// the answer from shared memory: a search per row and not per element, for a barrier. Rung 2: N values, 16 bytes, per
/// access: the same sectors in a quarter of the requests (an eighth for halves).
template <class T, int N, class Offset>
static __global__ void pack_rows(T* __restrict__ packed, const T* __restrict__ padded,
                                 const Offset* __restrict__ cu_seqlens, int64_t batch, int64_t length, int64_t width,
                                 int64_t total) {
  __shared__ int64_t sources[kShortRows];
  const int64_t row = row_of_thread(), count = width / N;
  if (threadIdx.x == 0 && row < total) sources[threadIdx.y] = padded_row_of(cu_seqlens, batch, length, row);
  __syncthreads();
  if (row >= total) return;
  const int64_t from = sources[threadIdx.y];
  const auto* source = packets_of<N>(padded);
  auto* to = packets_of<N>(packed) + row * count;
  Packet<T, N> values;
#pragma unroll
  for (int i = 0; i < N; ++i) values.values[i] = from_float<T>(NAN);
  for (int64_t p = threadIdx.x; p < count; p += blockDim.x) {
    if (from >= 0) values = source[from * count + p];
    to[p] = values;
  }
}

/// Unpack, rung 0: a thread per element of the padded batch. There is nothing to search, since a padded row knows its
/// sequence; but every thread divides for its row and loads two offsets, for 4 bytes.
template <class T, class Offset>
static __global__ void unpack_elements(T* __restrict__ padded, const T* __restrict__ packed,
                                       const Offset* __restrict__ cu_seqlens, int64_t rows, int64_t length,
                                       int64_t width, int64_t total, float padding) {
  const int64_t element = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (element >= rows * width) return;
  const int64_t from = packed_row_of(cu_seqlens, length, total, element / width);
  padded[element] = from < 0 ? from_float<T>(padding) : packed[from * width + element % width];
}

/// Unpack, rung 1 (N = 1): a block per padded row, or for several short ones. Every thread loads the same two offsets,
/// which is one sector for a warp and needs no barrier. Rung 2: N values per access. A row of padding is written and
/// not read.
template <class T, int N, class Offset>
static __global__ void unpack_rows(T* __restrict__ padded, const T* __restrict__ packed,
                                   const Offset* __restrict__ cu_seqlens, int64_t rows, int64_t length, int64_t width,
                                   int64_t total, float padding) {
  const int64_t row = row_of_thread(), count = width / N;
  if (row >= rows) return;
  const int64_t from = packed_row_of(cu_seqlens, length, total, row);
  const auto* source = packets_of<N>(packed);
  auto* to = packets_of<N>(padded) + row * count;
  Packet<T, N> values;
#pragma unroll
  for (int i = 0; i < N; ++i) values.values[i] = from_float<T>(padding);
  for (int64_t p = threadIdx.x; p < count; p += blockDim.x) {
    if (from >= 0) values = source[from * count + p];
    to[p] = values;
  }
}

}  // namespace tenfold::kernels
