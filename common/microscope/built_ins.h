#pragma once
// The kernel's side of the microscope: gives g++ what nvcc has built in, so that a kernel's source compiles unchanged.
// Only kernels/launch.cuh includes this. A CUDA thread is a fiber, a block's threads take turns on one CPU core, and
// the compiler's own access hooks (-fsanitize=thread) tell the engine of every load and store.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_functions.h>
#include <vector_types.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "common/microscope/device.h"

namespace tenfold::simt {

struct Index {
  uint32_t x, y, z;
};

// Constant for the life of a CUDA thread, and a fiber is one: the compiler may keep the value.
[[gnu::const]] Index thread_index();
[[gnu::const]] Index block_index();
[[gnu::const]] Index block_size();
[[gnu::const]] Index grid_size();
[[gnu::const]] void* dynamic_shared_memory();

enum class WarpOp {
  shuffle,
  shuffle_up,
  shuffle_down,
  shuffle_xor,
  ballot,
  all,
  any,
  match_any,
  add,
  min,
  max,
  sync,
  load_matrices,
  multiply
};
enum class AtomicOp { add, exchange, compare_exchange, min, max, increment };
enum class Number { f32, f64, i32, u32, i64, u64, f16x2, bf16x2 };
enum class MatrixType { bf16, f16, tf32, s8, e4m3 };

void block_barrier();
/// A barrier that also reduces: the number of threads with a true predicate.
int block_barrier_count(int predicate);
uint64_t warp_exchange(WarpOp op, uint32_t mask, uint64_t value, Number number, int argument, int width);
uint32_t active_lanes();
void thread_fence();
uint64_t atomic(void* address, AtomicOp op, Number number, uint64_t value, uint64_t compare = 0);

// What kernels/ptx.cuh needs, which says what each instruction does.
/// ldmatrix: one register for each of `count` 8 x 8 matrices of 16-bit elements; lane i names a row, 8 * count lanes in
/// all.
void load_matrices(uint32_t* registers, const void* row, int count, bool transposed);
/// mma.sync: d = a * b + c, each lane with its part of the four. Products and their sum are exact to float64, then
/// rounded once.
void multiply_matrices(MatrixType type, float* d, const uint32_t* a, const uint32_t* b, const float* c);
/// The same of s8, in integers: what does not fit in 32 bits wraps.
void multiply_matrices(MatrixType type, int* d, const uint32_t* a, const uint32_t* b, const int* c);
/// cp.async: `bytes` of shared memory, of which `source_bytes` come from global memory and the rest is 0. Nothing moves
/// yet.
void copy_async(void* shared, const void* global, int bytes, int source_bytes);
void commit_copies();
/// Moves the data of the thread's committed groups, except for the `newest`.
void wait_for_copies(int newest);

/// One CUDA thread: `enter(call)` runs `kernel` with its arguments. `cluster` blocks, neighbours along x, run together.
void run_grid(Device& device, dim3 grid, dim3 block, unsigned cluster, size_t shared_bytes, const void* kernel,
              void (*enter)(const void*), const void* call);

/// Two neighbours of 16 bits. Their copies are not trivial for g++, as CUDA's headers write them out.
template <class T>
inline constexpr bool kIsPair = std::is_same_v<T, __half2> || std::is_same_v<T, __nv_bfloat162>;

template <class T>
constexpr Number number_of() {
  if constexpr (std::is_same_v<T, __half2>) {
    return Number::f16x2;
  } else if constexpr (std::is_same_v<T, __nv_bfloat162>) {
    return Number::bf16x2;
  } else {
    static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
    if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 4 ? Number::f32 : Number::f64;
    if constexpr (std::is_signed_v<T>) return sizeof(T) == 4 ? Number::i32 : Number::i64;
    return sizeof(T) == 4 ? Number::u32 : Number::u64;
  }
}

template <class T>
uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= 8 && (std::is_trivially_copyable_v<T> || kIsPair<T>));
  uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const void*>(&value), sizeof(T));
  return bits;
}

template <class T>
T from_bits(uint64_t bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

}  // namespace tenfold::simt

// NOLINTBEGIN(bugprone-reserved-identifier): the names are CUDA's
#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __forceinline__
#undef __launch_bounds__
#undef __grid_constant__
#define __global__
#define __device__
#define __host__
#define __shared__ thread_local  // one core plays the multiprocessor, so a block's memory is that core's
#define __constant__
#define __forceinline__ __attribute__((always_inline)) inline  // as the built-ins below
#define __launch_bounds__(...)
#define __grid_constant__

#define threadIdx (::tenfold::simt::thread_index())
#define blockIdx (::tenfold::simt::block_index())
#define blockDim (::tenfold::simt::block_size())
#define gridDim (::tenfold::simt::grid_size())
inline constexpr int warpSize = 32;

// Always inlined, so that the engine sees the kernel's line and not one of this file.
#define TENFOLD_SIMT_BUILT_IN [[gnu::always_inline]] inline

TENFOLD_SIMT_BUILT_IN void __syncthreads() { ::tenfold::simt::block_barrier(); }
TENFOLD_SIMT_BUILT_IN int __syncthreads_count(int predicate) { return ::tenfold::simt::block_barrier_count(predicate); }
TENFOLD_SIMT_BUILT_IN int __syncthreads_or(int predicate) {
  return ::tenfold::simt::block_barrier_count(predicate) != 0;
}
TENFOLD_SIMT_BUILT_IN int __syncthreads_and(int predicate) {
  return ::tenfold::simt::block_barrier_count(!predicate) == 0;
}
TENFOLD_SIMT_BUILT_IN void __threadfence() { ::tenfold::simt::thread_fence(); }
TENFOLD_SIMT_BUILT_IN void __syncwarp(unsigned mask = 0xffffffffU) {
  ::tenfold::simt::warp_exchange(::tenfold::simt::WarpOp::sync, mask, 0, ::tenfold::simt::Number::u32, 0, 32);
}
TENFOLD_SIMT_BUILT_IN unsigned __activemask() { return ::tenfold::simt::active_lanes(); }

template <class T>
TENFOLD_SIMT_BUILT_IN T tenfold_shuffle(::tenfold::simt::WarpOp op, unsigned mask, T value, int argument, int width) {
  using namespace ::tenfold::simt;
  return from_bits<T>(warp_exchange(op, mask, to_bits(value), Number::u64, argument, width));
}
template <class T>
TENFOLD_SIMT_BUILT_IN T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  return tenfold_shuffle(::tenfold::simt::WarpOp::shuffle, mask, value, lane, width);
}
template <class T>
TENFOLD_SIMT_BUILT_IN T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return tenfold_shuffle(::tenfold::simt::WarpOp::shuffle_up, mask, value, static_cast<int>(delta), width);
}
template <class T>
TENFOLD_SIMT_BUILT_IN T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return tenfold_shuffle(::tenfold::simt::WarpOp::shuffle_down, mask, value, static_cast<int>(delta), width);
}
template <class T>
TENFOLD_SIMT_BUILT_IN T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  return tenfold_shuffle(::tenfold::simt::WarpOp::shuffle_xor, mask, value, lanes, width);
}

template <class T>
TENFOLD_SIMT_BUILT_IN T tenfold_warp(::tenfold::simt::WarpOp op, unsigned mask, T value) {
  using namespace ::tenfold::simt;
  return from_bits<T>(warp_exchange(op, mask, to_bits(value), number_of<T>(), 0, 32));
}
TENFOLD_SIMT_BUILT_IN unsigned __ballot_sync(unsigned mask, int predicate) {
  return tenfold_warp(::tenfold::simt::WarpOp::ballot, mask, static_cast<unsigned>(predicate != 0));
}
TENFOLD_SIMT_BUILT_IN int __all_sync(unsigned mask, int predicate) {
  return tenfold_warp(::tenfold::simt::WarpOp::all, mask, static_cast<int>(predicate != 0));
}
TENFOLD_SIMT_BUILT_IN int __any_sync(unsigned mask, int predicate) {
  return tenfold_warp(::tenfold::simt::WarpOp::any, mask, static_cast<int>(predicate != 0));
}
template <class T>
TENFOLD_SIMT_BUILT_IN unsigned __match_any_sync(unsigned mask, T value) {
  using namespace ::tenfold::simt;
  return static_cast<unsigned>(warp_exchange(WarpOp::match_any, mask, to_bits(value), Number::u64, 0, 32));
}
TENFOLD_SIMT_BUILT_IN int __reduce_add_sync(unsigned mask, int value) {
  return tenfold_warp(::tenfold::simt::WarpOp::add, mask, value);
}
TENFOLD_SIMT_BUILT_IN unsigned __reduce_add_sync(unsigned mask, unsigned value) {
  return tenfold_warp(::tenfold::simt::WarpOp::add, mask, value);
}
TENFOLD_SIMT_BUILT_IN int __reduce_min_sync(unsigned mask, int value) {
  return tenfold_warp(::tenfold::simt::WarpOp::min, mask, value);
}
TENFOLD_SIMT_BUILT_IN int __reduce_max_sync(unsigned mask, int value) {
  return tenfold_warp(::tenfold::simt::WarpOp::max, mask, value);
}

template <class T>
TENFOLD_SIMT_BUILT_IN T tenfold_atomic(T* address, ::tenfold::simt::AtomicOp op, T value, T compare = T()) {
  using namespace ::tenfold::simt;
  return from_bits<T>(atomic(address, op, number_of<T>(), to_bits(value), to_bits(compare)));
}
template <class T>
TENFOLD_SIMT_BUILT_IN T atomicAdd(T* address, std::type_identity_t<T> value) {
  return tenfold_atomic(address, ::tenfold::simt::AtomicOp::add, value);
}
template <class T>
TENFOLD_SIMT_BUILT_IN T atomicExch(T* address, std::type_identity_t<T> value) {
  return tenfold_atomic(address, ::tenfold::simt::AtomicOp::exchange, value);
}
template <class T>
TENFOLD_SIMT_BUILT_IN T atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  return tenfold_atomic(address, ::tenfold::simt::AtomicOp::compare_exchange, value, compare);
}
template <class T>
TENFOLD_SIMT_BUILT_IN T atomicMin(T* address, std::type_identity_t<T> value) {
  return tenfold_atomic(address, ::tenfold::simt::AtomicOp::min, value);
}
template <class T>
TENFOLD_SIMT_BUILT_IN T atomicMax(T* address, std::type_identity_t<T> value) {
  return tenfold_atomic(address, ::tenfold::simt::AtomicOp::max, value);
}
TENFOLD_SIMT_BUILT_IN unsigned atomicInc(unsigned* address, unsigned limit) {
  return tenfold_atomic(address, ::tenfold::simt::AtomicOp::increment, limit);
}

template <class T>
TENFOLD_SIMT_BUILT_IN T __ldg(const T* address) {
  return *address;
}

// The fast intrinsics compute exactly here: their error is a GPU's and is not modelled. glibc has private functions of
// the first names, hence macros.
#define __expf(x) (::expf(x))
#define __logf(x) (::logf(x))
#define __sinf(x) (::sinf(x))
#define __cosf(x) (::cosf(x))
#define __powf(x, y) (::powf(x, y))
TENFOLD_SIMT_BUILT_IN float __fdividef(float a, float b) { return a / b; }
TENFOLD_SIMT_BUILT_IN float __frcp_rn(float a) { return 1 / a; }
TENFOLD_SIMT_BUILT_IN float __fsqrt_rn(float a) { return ::sqrtf(a); }
TENFOLD_SIMT_BUILT_IN float rsqrtf(float a) { return 1 / ::sqrtf(a); }
TENFOLD_SIMT_BUILT_IN float __fmaf_rn(float a, float b, float c) { return ::fmaf(a, b, c); }
TENFOLD_SIMT_BUILT_IN int __float_as_int(float a) { return std::bit_cast<int>(a); }
TENFOLD_SIMT_BUILT_IN float __int_as_float(int a) { return std::bit_cast<float>(a); }
TENFOLD_SIMT_BUILT_IN unsigned __float_as_uint(float a) { return std::bit_cast<unsigned>(a); }
TENFOLD_SIMT_BUILT_IN float __uint_as_float(unsigned a) { return std::bit_cast<float>(a); }
/// c and the sum of the products of four int8 each, one to a byte.
TENFOLD_SIMT_BUILT_IN int __dp4a(int a, int b, int c) {
  unsigned sum = static_cast<unsigned>(c);
  for (int byte = 0; byte < 32; byte += 8)
    sum += static_cast<unsigned>(static_cast<int8_t>(a >> byte) * static_cast<int8_t>(b >> byte));
  return static_cast<int>(sum);
}
TENFOLD_SIMT_BUILT_IN int __popc(unsigned a) { return std::popcount(a); }
TENFOLD_SIMT_BUILT_IN int __ffs(int a) { return a == 0 ? 0 : std::countr_zero(static_cast<unsigned>(a)) + 1; }
TENFOLD_SIMT_BUILT_IN int __clz(int a) { return std::countl_zero(static_cast<unsigned>(a)); }
template <class A, class B>
TENFOLD_SIMT_BUILT_IN std::common_type_t<A, B> min(A a, B b) {
  return b < a ? b : a;
}
template <class A, class B>
TENFOLD_SIMT_BUILT_IN std::common_type_t<A, B> max(A a, B b) {
  return a < b ? b : a;
}
#undef TENFOLD_SIMT_BUILT_IN
// NOLINTEND(bugprone-reserved-identifier)

namespace tenfold::kernels {

using Stream = simt::Stream;

/// Runs `kernel` to its end, in clusters of `cluster` blocks. Throws std::invalid_argument for a grid, block, cluster
/// or amount of shared memory that no GPU takes.
template <class... Parameters, class... Arguments>
void launch_cluster(Stream device, dim3 grid, dim3 block, unsigned cluster, size_t shared_bytes,
                    void (*kernel)(Parameters...), Arguments... arguments) {
  struct Call {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> arguments;
  };
  const Call call{kernel, {static_cast<Parameters>(arguments)...}};
  simt::run_grid(
      *device, grid, block, cluster, shared_bytes, reinterpret_cast<const void*>(kernel),
      [](const void* c) { std::apply(static_cast<const Call*>(c)->kernel, static_cast<const Call*>(c)->arguments); },
      &call);
}

template <class... Parameters, class... Arguments>
void launch(Stream device, dim3 grid, dim3 block, size_t shared_bytes, void (*kernel)(Parameters...),
            Arguments... arguments) {
  launch_cluster(device, grid, block, 1, shared_bytes, kernel, arguments...);
}

template <class T>
[[gnu::always_inline]] inline T* dynamic_shared() {
  return static_cast<T*>(simt::dynamic_shared_memory());
}

}  // namespace tenfold::kernels
