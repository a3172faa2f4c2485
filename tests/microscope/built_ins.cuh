#pragma once
// One kernel for each group of CUDA's built-in functions; built_ins_test.cpp says what must come out.
#include "kernels/launch.cuh"

namespace tenfold::test {

using kernels::dynamic_shared;

/// out[lane] = what lane gets when each lane offers 100 + lane; in = {0 idx, 1 up, 2 down, 3 xor; argument; width}.
static __global__ void shuffle(int* out, const int* in, int64_t) {
  const int lane = static_cast<int>(threadIdx.x), value = 100 + lane, argument = in[1], width = in[2];
  constexpr unsigned kAll = 0xffffffffU;
  switch (in[0]) {
    case 0:
      out[lane] = __shfl_sync(kAll, value, argument, width);
      break;
    case 1:
      out[lane] = __shfl_up_sync(kAll, value, static_cast<unsigned>(argument), width);
      break;
    case 2:
      out[lane] = __shfl_down_sync(kAll, value, static_cast<unsigned>(argument), width);
      break;
    default:
      out[lane] = __shfl_xor_sync(kAll, value, argument, width);
      break;
  }
}

/// Every lane's value of its right neighbour, as double, half and 64-bit integer.
static __global__ void shuffle_types(double* out, const double* in, int64_t) {
  const unsigned lane = threadIdx.x;
  const auto whole = static_cast<long long>(in[lane] * 1e15);
  out[lane] = __shfl_down_sync(0xffffffffU, in[lane], 1);
  out[32 + lane] = __half2float(__shfl_down_sync(0xffffffffU, __float2half(static_cast<float>(in[lane])), 1));
  out[64 + lane] = static_cast<double>(__shfl_down_sync(0xffffffffU, whole, 1)) * 1e-15;
}

/// Votes and reductions over in[lane], eight results for each lane.
static __global__ void votes(int* out, const int* in, int64_t) {
  constexpr unsigned kAll = 0xffffffffU;
  const int value = in[threadIdx.x];
  int* mine = out + 8 * threadIdx.x;
  mine[0] = static_cast<int>(__ballot_sync(kAll, value > 0));
  mine[1] = __any_sync(kAll, value > 0);
  mine[2] = __all_sync(kAll, value > 0);
  mine[3] = static_cast<int>(__match_any_sync(kAll, value));
  mine[4] = __reduce_add_sync(kAll, value);
  mine[5] = __reduce_min_sync(kAll, value);
  mine[6] = __reduce_max_sync(kAll, value);
  mine[7] = static_cast<int>(__reduce_add_sync(kAll, static_cast<unsigned>(value)));
}

/// The warp is split: odd and even lanes vote, shuffle and reduce apart, at different lines.
static __global__ void split_warp(int* out, const int* in, int64_t) {
  constexpr unsigned kEven = 0x55555555U, kOdd = 0xaaaaaaaaU;
  const int lane = static_cast<int>(threadIdx.x), value = in[lane];
  if (lane % 2 == 0) {
    out[lane] = __reduce_add_sync(kEven, value);
    out[32 + lane] = __shfl_xor_sync(kEven, value, 2);
  } else {
    out[lane] = __reduce_max_sync(kOdd, value);
    out[32 + lane] = __shfl_xor_sync(kOdd, value, 4);
  }
}

/// A block whose last warp has fewer than 32 lanes: out[thread] = ballot of its warp, and how many lanes it has.
static __global__ void partial_warp(int* out, const int*, int64_t) {
  const unsigned lanes = min(32U, blockDim.x - threadIdx.x / 32 * 32), mask = 0xffffffffU >> (32 - lanes);
  out[2 * threadIdx.x + 1] = static_cast<int>(lanes);
  out[2 * threadIdx.x] = static_cast<int>(__ballot_sync(mask, threadIdx.x % 3 == 0));
}

/// __syncthreads_count, _or, _and of in[thread] > n.
static __global__ void block_votes(int* out, const int* in, int64_t n) {
  const int yes = in[threadIdx.x] > n;
  int* mine = out + 3 * threadIdx.x;
  mine[0] = __syncthreads_count(yes);
  mine[1] = __syncthreads_or(yes);
  mine[2] = __syncthreads_and(yes);
}

/// in[i] of all threads into out[0 to 6] in seven ways; out[7 + i] = what thread i's atomicExch gave back.
static __global__ void atomics(int* out, const int* in, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicAdd(&out[0], in[i]);
  atomicAdd(reinterpret_cast<unsigned*>(&out[1]), static_cast<unsigned>(in[i]));
  atomicAdd(reinterpret_cast<float*>(&out[2]), static_cast<float>(in[i]) + 0.5F);
  atomicMin(&out[3], in[i]);
  atomicMax(&out[4], in[i]);
  atomicInc(reinterpret_cast<unsigned*>(&out[5]), 9U);
  int seen = 0, expected = 0;  // the product of all, for which CUDA has no atomic
  do {
    expected = seen;
    seen = atomicCAS(&out[6], expected, expected * (in[i] | 1));
  } while (seen != expected);
  out[8 + i] = atomicExch(&out[7], static_cast<int>(i));
}

/// in[i] of all threads, and its negative half, into the pairs out[0] (__half2) and out[1] (__nv_bfloat162).
static __global__ void atomic_pairs(int* out, const int* in, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const auto value = static_cast<float>(in[i]);
  atomicAdd(reinterpret_cast<__half2*>(&out[0]), __floats2half2_rn(value, -value / 2));
  atomicAdd(reinterpret_cast<__nv_bfloat162*>(&out[1]), __floats2bfloat162_rn(value, -value / 2));
}

/// Reverses n values through dynamic shared memory.
static __global__ void dynamic_reverse(float* out, const float* in, int64_t n) {
  float* tile = dynamic_shared<float>();
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[n - 1 - threadIdx.x];
}

/// out[6 * i] = the indices of the i-th thread of the grid, counted x first.
static __global__ void indices(int* out, const int*, int64_t) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const uint3 b = {blockIdx.x, blockIdx.y, blockIdx.z}, t = {threadIdx.x, threadIdx.y, threadIdx.z};
  int* mine = out + 6 * (block * blockDim.x * blockDim.y * blockDim.z + thread);
  const unsigned all[6] = {b.x, b.y, b.z, t.x, t.y, t.z};
  for (int k = 0; k < 6; ++k) mine[k] = static_cast<int>(all[k]);
}

/// out[i] = out[i] + the dot product of the four bytes of in[2 i] and in[2 i + 1].
static __global__ void dot_of_bytes(int* out, const int* in, int64_t) {
  const int i = static_cast<int>(threadIdx.x);
  out[i] = __dp4a(in[2 * i], in[2 * i + 1], out[i]);
}

/// out[2 * block + k] = 1 when static (0) and dynamic (1) shared memory begin as NaN; then both are filled.
static __global__ void fresh_shared(int* out, const int*, int64_t) {
  __shared__ float fixed[32];
  float* dynamic = dynamic_shared<float>();
  const float a = fixed[threadIdx.x], b = dynamic[threadIdx.x];
  const int fresh[2] = {__all_sync(0xffffffffU, a != a), __all_sync(0xffffffffU, b != b)};
  if (threadIdx.x == 0) out[2 * blockIdx.x] = fresh[0], out[2 * blockIdx.x + 1] = fresh[1];
  fixed[threadIdx.x] = 1;
  dynamic[threadIdx.x] = 1;
}

/// Threads from n on leave before the barrier; the others pass their number on to the right.
static __global__ void early_exit(int* out, const int*, int64_t n) {
  __shared__ int tile[64];
  if (threadIdx.x >= n) return;
  tile[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();  // @early_exit
  out[threadIdx.x] = tile[(threadIdx.x + 1) % n];
}

}  // namespace tenfold::test
