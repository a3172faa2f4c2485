#pragma once
// What the kernels over rows share: every type as float, packets of 16 bytes, sums of a warp and of a block.

#include "launch.cuh"

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace tenfold::kernels {

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(__half value) { return __half2float(value); }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

/// Rounded to nearest even.
template <class T>
__device__ inline T from_float(float value) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half(value);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16(value);
  } else {
    return value;
  }
}

/// N neighbouring values that one instruction moves.
template <class T, int N>
struct alignas(sizeof(T) * N) Packet {
  T values[N];
};

/// Values in 16 bytes, the most that a thread moves at once: 4 floats or 8 halves.
template <class T>
inline constexpr int kPacket = static_cast<int>(16 / sizeof(T));

/// The same values as packets, where packets_fit(). Index in packets: for some sums of value offsets nvcc no longer
/// sees that the address is a multiple of 16, and stores the values of a packet one by one.
template <int N, class T>
__device__ inline const Packet<T, N>* packets_of(const T* values) {
  return reinterpret_cast<const Packet<T, N>*>(values);
}
template <int N, class T>
__device__ inline Packet<T, N>* packets_of(T* values) {
  return reinterpret_cast<Packet<T, N>*>(values);
}

/// Whether every row of all these (rows, columns) arrays begins at a packet and is made of whole ones.
template <class T>
inline bool packets_fit(int64_t columns, std::initializer_list<const void*> arrays) {
  bool fit = columns % kPacket<T> == 0;
  for (const void* array : arrays) fit = fit && reinterpret_cast<uintptr_t>(array) % 16 == 0;
  return fit;
}

// How values are combined, and what is combined where there is no value: nothing() leaves the other as it is.
struct Add {
  template <class T>
  static __device__ T nothing() {
    return T{};
  }
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Larger {
  template <class T>
  static __device__ T nothing() {
    return -INFINITY;
  }
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

__device__ inline float shuffle_xor(float value, int lanes) { return __shfl_xor_sync(0xffffffffU, value, lanes); }
__device__ inline int shuffle_xor(int value, int lanes) { return __shfl_xor_sync(0xffffffffU, value, lanes); }

/// The values of a warp's 32 lanes combined, in every lane. A type of your own needs a shuffle_xor. The lanes may
/// differ in the last bit where combine(a, b) rounds otherwise than combine(b, a).
template <class T, class Combine>
__device__ inline T combine_warp(T value, Combine combine) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) value = combine(value, shuffle_xor(value, lanes));
  return value;
}

/// A place for each warp of a block, the same for all calls.
template <class T>
__device__ inline T* warp_places() {
  __shared__ T places[32];
  return places;
}

/// What `warps` warps have left, combined in every lane: kMost at most, a power of two, in log2(kMost) shuffle steps. A
/// loop over the warps would be that many loads and additions, one after the other, with nothing else of the block to
/// do. Lanes beyond the warps have nothing(). The same bits in every lane where combine(a, b) has those of
/// combine(b, a). kUnrolled of the steps stand one after the other; fewer need fewer registers.
template <unsigned kMost = 32, int kUnrolled = 5, class T, class Combine>
__device__ inline T combine_warps(const T* of_warps, unsigned warps, Combine combine) {
  const unsigned lane = threadIdx.x % kMost;
  T value = Combine::template nothing<T>();
  if (lane < warps) value = of_warps[lane];
#pragma unroll kUnrolled
  for (int lanes = kMost / 2; lanes > 0; lanes /= 2) value = combine(value, shuffle_xor(value, lanes));
  return value;
}

/// The values of a block's threads combined, the same bits in every thread. The block is one-dimensional, of whole
/// warps.
template <class T, class Combine>
__device__ inline T combine_block(T value, Combine combine) {
  T* of_warp = warp_places<T>();
  value = combine_warp(value, combine);
  __syncthreads();  // somebody may still read an earlier call's values
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  return combine_warps(of_warp, blockDim.x / 32, combine);
}

/// Throws std::invalid_argument unless a grid can have a block for each row.
inline void check_rows(const std::string& kernel, int64_t rows, int64_t columns) {
  const std::string shape = "(" + std::to_string(rows) + ", " + std::to_string(columns) + ")";
  if (rows < 1 || columns < 1) throw std::invalid_argument(kernel + ": the shape " + shape + " has a size below 1");
  if (rows > 0x7fffffff)
    throw std::invalid_argument(kernel + ": the shape " + shape + " has more than 2147483647 rows");
}

inline std::invalid_argument no_such_rung(const std::string& kernel, int rung, int rungs) {
  return std::invalid_argument(kernel + ": no rung " + std::to_string(rung) + "; there are 0 to " +
                               std::to_string(rungs - 1));
}

/// Threads of a block that works on one row: whole warps, about eight values for each thread, 512 at most.
inline unsigned threads_for_row(int64_t columns) {
  const int64_t warps = (columns + 255) / 256;
  return 32 * static_cast<unsigned>(warps < 16 ? warps : 16);
}

/// Rows that a block has side by side where one warp is enough for a row: an SM that takes no more than 32 blocks (16
/// on a T4) is then not held to as many warps.
inline constexpr unsigned kShortRows = 4;

/// A block for rows of so many columns: dim3(threads_for_row(), 1), or kShortRows rows of a warp each. A kernel that is
/// launched with it asks row_of_thread() for its row, and has a block for each block.y rows.
inline dim3 block_for_rows(int64_t columns) {
  const unsigned threads = threads_for_row(columns);
  return threads == 32 ? dim3(32, kShortRows) : dim3(threads);
}

/// May be a row beyond the last one, for all threads of a warp. Where a kernel is compiled apart for blocks of a single
/// row, kSeveral = false saves it registers.
template <bool kSeveral = true>
__device__ inline int64_t row_of_thread() {
  return kSeveral ? int64_t{blockIdx.x} * blockDim.y + threadIdx.y : int64_t{blockIdx.x};
}

/// combine_block() over one row's threads. A row of one warp (kOneWarp) needs neither shared memory nor a barrier, so
/// that other rows of the block may have left.
template <bool kOneWarp, class T, class Combine>
__device__ inline T combine_row_threads(T value, Combine combine) {
  if constexpr (kOneWarp) {
    return combine_warp(value, combine);
  } else {
    return combine_block(value, combine);
  }
}

inline unsigned blocks_for(int64_t count, int64_t of_block) {
  return static_cast<unsigned>((count + of_block - 1) / of_block);
}

}  // namespace tenfold::kernels
