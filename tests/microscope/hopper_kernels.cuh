#pragma once
// mbarriers, TMA and wgmma, a question each; the mistakes are at the line that the @marker names. hopper_test.cpp asks.
#include "kernels/ptx_hopper.cuh"

namespace tenfold::test {

using kernels::mbarrier_arrive;
using kernels::mbarrier_arrive_expect;
using kernels::mbarrier_init;
using kernels::mbarrier_init_fence;
using kernels::mbarrier_wait;
using kernels::tma_load;

/// Dynamic shared memory from a multiple of 1024 on.
__device__ inline unsigned char* aligned_shared() {
  unsigned char* const begin = kernels::dynamic_shared<unsigned char>();
  return begin + (1024 - kernels::shared_address(begin) % 1024) % 1024;
}

// --- mbarrier --------------------------------------------------------------------------------------------------------
/// Warp 0 hands 32 values over to warp 1. n: 0 right, 1 no wait, 2 an arrival is missing, 3 arrives before it writes, 4
/// nothing orders the initialisation, 5 one lane arrives for all of its warp, 6 the same behind a __syncwarp, which is
/// right.
static __global__ void mbarrier_hand_over(float* out, const float* in, int64_t n) {
  __shared__ uint64_t full;
  __shared__ float tile[32];
  const unsigned lane = threadIdx.x % 32;
  const bool for_all = n == 5 || n == 6;
  if (threadIdx.x == 0) mbarrier_init(&full, n == 2 ? 33 : for_all ? 1 : 32);  // @init
  if (n != 4) __syncthreads();
  if (threadIdx.x < 32) {
    if (n == 3) mbarrier_arrive(&full);
    tile[lane] = in[lane];  // @handed_store
    if (n == 6) __syncwarp();
    if (n != 3 && (!for_all || lane == 0)) mbarrier_arrive(&full);  // @arrive
  } else {
    if (n != 1) mbarrier_wait(&full, 0);  // @full_wait
    out[lane] = tile[31 - lane];          // @handed_load
  }
}

/// n rounds through one place. kMissing: 1 the wait before it is filled again, 2 the word that it may be.
template <int kMissing>
static __global__ void mbarrier_rounds(float* out, const float* in, int64_t n) {
  __shared__ uint64_t full, empty;
  __shared__ float tile[32];
  const unsigned lane = threadIdx.x % 32;
  if (threadIdx.x == 0) mbarrier_init(&full, 32), mbarrier_init(&empty, 32);
  __syncthreads();
  float sum = 0;
  for (int64_t round = 0; round < n; ++round) {
    const auto parity = static_cast<uint32_t>(round % 2);
    if (threadIdx.x < 32) {
      if (kMissing != 1) mbarrier_wait(&empty, parity ^ 1);  // @empty_wait
      tile[lane] = in[round * 32 + lane];                    // @round_store
      mbarrier_arrive(&full);
    } else {
      mbarrier_wait(&full, parity);
      sum += tile[31 - lane];  // @round_load
      if (kMissing != 2) mbarrier_arrive(&empty);
    }
  }
  if (threadIdx.x >= 32) out[lane] = sum;
}

/// What warp 0 did reaches warp 2 by way of warp 1, which waits and arrives and touches nothing. n: 0 right, 1 without
/// warp 1's wait.
static __global__ void mbarrier_chain(float* out, const float* in, int64_t n) {
  __shared__ uint64_t first, second;
  __shared__ float tile[32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (threadIdx.x == 0) mbarrier_init(&first, 32), mbarrier_init(&second, 32);
  __syncthreads();
  if (warp == 0) {
    tile[lane] = in[lane];  // @chain_store
    mbarrier_arrive(&first);
  } else if (warp == 1) {
    if (n == 0) mbarrier_wait(&first, 0);
    mbarrier_arrive(&second);
  } else {
    mbarrier_wait(&second, 0);
    out[lane] = tile[31 - lane];  // @chain_load
  }
}

/// n: 0 not initialised, 1 twice, 2 for no arrivals, 3 arrives once too often, 4 not in shared memory.
static __global__ void mbarrier_mistake(uint64_t* out, const float*, int64_t n) {
  __shared__ uint64_t barrier;
  if (threadIdx.x != 0) return;
  if (n == 0) mbarrier_arrive(&barrier);   // @not_initialised
  if (n == 2) mbarrier_init(&barrier, 0);  // @no_arrivals
  if (n == 4) mbarrier_init(out, 1);       // @not_shared_barrier
  if (n == 1 || n == 3) mbarrier_init(&barrier, 1);
  if (n == 1) mbarrier_init(&barrier, 1);  // @twice
  if (n == 3) mbarrier_arrive_expect(&barrier, 16);
  if (n == 3) mbarrier_arrive(&barrier);  // @too_often
}

// --- TMA -------------------------------------------------------------------------------------------------------------
/// The bytes in shared memory of the box of 64 x 16 elements of 16 bits at x = n % 65536 - 1000, y = n / 65536 - 1000.
static __global__ void box_at(uint16_t* out, const CUtensorMap* map, int64_t n) {
  __shared__ uint64_t full;
  unsigned char* const tile = aligned_shared();
  if (threadIdx.x == 0) mbarrier_init(&full, 1), mbarrier_init_fence();
  __syncthreads();
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect(&full, 2048);
    tma_load(tile, map, &full, static_cast<int>(n % 65536) - 1000, static_cast<int>(n / 65536) - 1000);  // @box
  }
  mbarrier_wait(&full, 0);
  for (unsigned i = threadIdx.x; i < 1024; i += 32) out[i] = reinterpret_cast<uint16_t*>(tile)[i];
}

/// n: 0 right, 1 no wait, 2 only lane 0 waits, 3 no fence, 4 and 5 too few and too many bytes announced, 6 a target
/// that is not aligned, 7 filled again while others read, 8 nobody waits and nobody reads, 9 behind the end of shared
/// memory, 10 the copy of a second box is not announced.
static __global__ void box_mistake(uint16_t* out, const CUtensorMap* map, int64_t n) {
  __shared__ uint64_t full;
  unsigned char* const tile = aligned_shared();
  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    if (n != 3) mbarrier_init_fence();
  }
  __syncthreads();
  const unsigned offset = n == 6 ? 512 : n == 9 ? 8192 : 0;
  const auto load = [&](unsigned char* to, uint32_t bytes) {
    if (threadIdx.x != 0) return;
    if (bytes != 0) mbarrier_arrive_expect(&full, bytes);
    tma_load(to, map, &full, 0, 0);  // @bad_box
  };
  load(tile + offset, n == 4 ? 1024 : n == 5 ? 4096 : 2048);
  if (n == 10) load(tile + 2048, 0);
  if (n == 8) return;
  if (n == 2 ? threadIdx.x == 0 : n != 1) mbarrier_wait(&full, 0);                           // @box_wait
  out[threadIdx.x] = reinterpret_cast<uint16_t*>(tile + (n == 10 ? 2048 : 0))[threadIdx.x];  // @box_load
  if (n == 7) load(tile, 2048);
  if (n == 7) mbarrier_wait(&full, 1);
}

// --- wgmma -----------------------------------------------------------------------------------------------------------
/// Where element i of the long way lies at depth k, in one of four layouts, and the descriptor of such an operand.
/// From the PTX ISA, "Strides" and "Canonical layouts": core matrices are 8 x 16 bytes.
struct Layout {
  int kind;  ///< 0 and 1 along the depth without a swizzle and in the 128-byte one, 2 and 3 across it likewise
  int extent;
  __device__ bool across() const { return kind >= 2; }
  __device__ int offset(int i, int k) const {
    const int matrix = 128;  // bytes
    if (kind == 0) return (i / 8 * 2 + k / 8) * matrix + i % 8 * 16 + k % 8 * 2;
    if (kind == 1) return i * 128 + (k / 8 ^ i % 8) * 16 + k % 8 * 2;
    if (kind == 2) return (k / 8 * (extent / 8) + i / 8) * matrix + k % 8 * 16 + i % 8 * 2;
    return i / 64 * 2048 + k * 128 + (i % 64 / 8 ^ k % 8) * 16 + i % 8 * 2;
  }
  __device__ uint64_t descriptor(uint32_t address) const {
    const auto field = [](int bytes) { return static_cast<uint64_t>(bytes / 16); };
    const uint64_t swizzle = uint64_t{kind % 2 == 1} << 62, begin = address >> 4;
    if (kind == 0) return swizzle | field(256) << 32 | field(128) << 16 | begin;
    if (kind == 1) return swizzle | field(1024) << 32 | field(16) << 16 | begin;
    if (kind == 2) return swizzle | field(128) << 32 | field(extent / 8 * 128) << 16 | begin;
    return swizzle | field(1024) << 32 | field(2048) << 16 | begin;
  }
};

/// out (64, 128) += A (64, 16) * B (16, 128), which lie one after the other in `in`, row-major; n = 4 * layout of B +
/// layout of A.
template <class T>
static __global__ void wgmma_product(float* out, const T* in, int64_t n) {
  unsigned char *const a_tile = aligned_shared(), *const b_tile = a_tile + 8192;
  const Layout a{static_cast<int>(n % 4), 64}, b{static_cast<int>(n / 4), 128};
  for (int i = threadIdx.x; i < 64 * 16; i += 128) memcpy(a_tile + a.offset(i / 16, i % 16), in + i, 2);
  for (int i = threadIdx.x; i < 16 * 128; i += 128) memcpy(b_tile + b.offset(i % 128, i / 128), in + 1024 + i, 2);
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
  float sum[64];
  const auto place = [&](int i) { return out + (row + i / 2 % 2 * 8) * 128 + column + i / 4 * 8 + i % 2; };
  for (int i = 0; i < 64; ++i) sum[i] = *place(i);
  kernels::fence_async_proxy();
  __syncthreads();
  constexpr auto kType = std::is_same_v<T, __half> ? simt::MatrixType::f16 : simt::MatrixType::bf16;
  kernels::wgmma_fence();
  simt::warpgroup_multiply(kType, 128, sum, a.descriptor(kernels::shared_address(a_tile)),  // @product
                           b.descriptor(kernels::shared_address(b_tile)), true, a.across(), b.across());
  kernels::wgmma_commit();
  kernels::wgmma_wait<0>();
  simt::warpgroup_settle(sum, 64);
  for (int i = 0; i < 64; ++i) *place(i) = sum[i];
}

/// Ones times ones: each result is 16. n: 0 right, 1 no fence, 2 its sums are touched behind it, 3 no wait, 4 no
/// commit, 5 not settled, 6 warps name different operands, 7 an operand changes before the wait, 8 an operand beyond
/// shared memory, 9 nobody waits and nobody reads, 10 a warp does not come, 11 a wait for all but the newest group, 12
/// no fence behind the stores of the ones, 13 that fence behind the barrier, which is right, 14 an operand changes when
/// this warp has waited and others may not have, 15 it does behind a barrier, which is right.
static __global__ void wgmma_mistake(float* out, const float*, int64_t n) {
  unsigned char* const tile = aligned_shared();
  for (int i = threadIdx.x; i < 8192; i += 128) reinterpret_cast<uint16_t*>(tile)[i] = 0x3c00;  // @ones
  if (n != 12 && n != 13) kernels::fence_async_proxy();
  __syncthreads();
  if (n == 13) kernels::fence_async_proxy();
  if (n == 10 && threadIdx.x >= 96) return;
  const Layout a{1, 64}, b{3, 256};
  const uint32_t begin = kernels::shared_address(tile);
  const uint64_t a_descriptor = a.descriptor(begin + (n == 6 && threadIdx.x >= 32 ? 32 : 0));
  const uint64_t b_descriptor = b.descriptor(n == 8 ? 0x3f000 : begin + 8192);
  float sum[32][4] = {};
  const auto multiply = [&](bool fence) {
    if (fence) kernels::wgmma_fence();
    kernels::wgmma_m64n256k16<__half>(sum, a_descriptor, b_descriptor, false);  // @multiply
    if (n != 4) kernels::wgmma_commit();
  };
  multiply(n != 1);
  if (n == 2) {
    kernels::wgmma_wait<0>();
    kernels::wgmma_settle(sum);
    sum[0][0] += static_cast<float>(n);
    multiply(false);
  }
  if (n == 7) reinterpret_cast<uint16_t*>(tile)[threadIdx.x] = 0;  // @operand_store
  if (n == 9) return;
  if (n == 11) kernels::wgmma_wait<1>();
  if (n != 3 && n != 11) kernels::wgmma_wait<0>();              // @product_wait
  if (n != 3 && n != 5 && n != 11) kernels::wgmma_settle(sum);  // @settle
  out[threadIdx.x] = sum[31][3];                                // @sum_load
  if (n == 15) __syncthreads();
  if (n >= 14) reinterpret_cast<uint16_t*>(tile)[threadIdx.x] = 0;  // @late_store
}

}  // namespace tenfold::test
