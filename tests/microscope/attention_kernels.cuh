#pragma once
// What attention's rungs for Hopper need besides hopper_kernels.cuh: barriers with a number, boxes from a stack of
// matrices, wgmma with its left operand in registers. The mistakes are at the line that the @marker names;
// attention_hopper_test.cpp asks.
#include "hopper_kernels.cuh"
#include "kernels/ptx_wgmma_hopper.cuh"

namespace tenfold::test {

using kernels::named_barrier_arrive;
using kernels::named_barrier_sync;

// --- barriers with a number ------------------------------------------------------------------------------------------
/// Warp 0 hands 32 values over to warp 1. n: 0 right, 1 no wait, 2 no arrival, 3 arrives before it writes, 4 the two
/// name other counts, 5 they name other barriers, 6 both wait, which is right, 7 half a warp, 8 barrier 16.
static __global__ void named_hand_over(float* out, const float* in, int64_t n) {
  __shared__ float tile[32];
  const unsigned lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    if (n == 3) named_barrier_arrive(1, 64);
    tile[lane] = in[lane];                                                          // @named_store
    if (n != 2 && n != 3 && n < 6) named_barrier_arrive(n == 5 ? 2 : 1, 64);        // @named_arrive
    if (n == 6) named_barrier_sync(1, 64);                                          // @named_both
    if (n == 7 || n == 8) named_barrier_arrive(n == 8 ? 16 : 1, n == 7 ? 48 : 64);  // @named_wrong
  } else if (threadIdx.x < 64) {
    if (n != 1 && n < 7) named_barrier_sync(1, n == 4 ? 96 : 64);  // @named_wait
    if (n < 4 || n == 6) out[lane] = tile[31 - lane];              // @named_load
  }
}

/// n rounds through one place, in turns: barrier 1 says that it is filled, barrier 2 that it is free. `kMissing`: 1 the
/// wait before it is filled again.
template <int kMissing>
static __global__ void named_rounds(float* out, const float* in, int64_t n) {
  __shared__ float tile[32];
  const unsigned lane = threadIdx.x % 32;
  float sum = 0;
  for (int64_t round = 0; round < n; ++round) {
    if (threadIdx.x < 32) {
      if (round != 0 && kMissing != 1) named_barrier_sync(2, 64);
      tile[lane] = in[round * 32 + lane];  // @turn_store
      named_barrier_arrive(1, 64);
    } else {
      named_barrier_sync(1, 64);
      sum += tile[31 - lane];  // @turn_load
      if (round + 1 != n && kMissing != 1) named_barrier_arrive(2, 64);
    }
  }
  if (threadIdx.x >= 32) out[lane] = sum;
}

// --- TMA -------------------------------------------------------------------------------------------------------------
/// The bytes in shared memory of the box of 64 x 16 elements of 16 bits at x = 0, y = n % 256 of matrix n / 256.
static __global__ void box_of_stack(uint16_t* out, const CUtensorMap* map, int64_t n) {
  __shared__ uint64_t full;
  unsigned char* const tile = aligned_shared();
  if (threadIdx.x == 0) mbarrier_init(&full, 1), mbarrier_init_fence();
  __syncthreads();
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect(&full, 2048);
    kernels::tma_load(tile, map, &full, 0, static_cast<int>(n % 256), static_cast<int>(n / 256));  // @stack_box
  }
  mbarrier_wait(&full, 0);
  for (unsigned i = threadIdx.x; i < 1024; i += 32) out[i] = reinterpret_cast<uint16_t*>(tile)[i];
}

// --- wgmma -----------------------------------------------------------------------------------------------------------
/// Element i of the eight that a thread has of A (64, 16): its row, and its depth. From the PTX ISA's figure of the
/// fragment.
__device__ inline int fragment_row(int i) { return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + (i / 2 % 2) * 8; }
__device__ inline int fragment_depth(int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }

/// The elements of A that are the thread's own, packed by two.
template <class T>
__device__ inline void load_fragment(uint32_t (&a)[1][4], const T* in) {
  for (int i = 0; i < 8; ++i)
    memcpy(reinterpret_cast<unsigned char*>(a[0]) + 2 * i, in + fragment_row(i) * 16 + fragment_depth(i), 2);
}

/// out (64, kColumns) += A (64, 16) * B (16, kColumns), which lie one after the other in `in`, row-major. n: 0 A in
/// registers, 1 (for 128 columns) both in shared memory with neighbours along the depth.
template <class T, int kColumns>
static __global__ void wgmma_narrow(float* out, const T* in, int64_t n) {
  unsigned char *const a_tile = aligned_shared(), *const b_tile = a_tile + 8192;
  const Layout a{1, 64}, b{n == 0 ? 3 : 1, kColumns};
  for (int i = threadIdx.x; i < 64 * 16; i += 128) memcpy(a_tile + a.offset(i / 16, i % 16), in + i, 2);
  for (int i = threadIdx.x; i < 16 * kColumns; i += 128)
    memcpy(b_tile + b.offset(i % kColumns, i / kColumns), in + 1024 + i, 2);
  float sum[kColumns / 8][4];
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
  const auto place = [&](int j, int i) { return out + (row + i / 2 * 8) * kColumns + 8 * j + column + i % 2; };
  for (int i = 0; i < kColumns / 2; ++i) sum[i / 4][i % 4] = *place(i / 4, i % 4);
  uint32_t fragment[1][4];
  load_fragment(fragment, in);
  kernels::fence_async_proxy();
  __syncthreads();
  const uint64_t a_descriptor = a.descriptor(kernels::shared_address(a_tile)),
                 b_descriptor = b.descriptor(kernels::shared_address(b_tile));
  kernels::wgmma_fence();
  if constexpr (kColumns == 64) kernels::wgmma_m64n64k16_registers<T>(sum, fragment[0], b_descriptor, true);
  if constexpr (kColumns == 128) {
    if (n == 0) kernels::wgmma_m64n128k16_registers<T>(sum, fragment[0], b_descriptor, true);
    if (n == 1) kernels::wgmma_m64n128k16<T>(sum, a_descriptor, b_descriptor, true);
  }
  kernels::wgmma_commit();
  kernels::wgmma_wait<0>();
  kernels::wgmma_settle(sum);
  for (int i = 0; i < kColumns / 2; ++i) *place(i / 4, i % 4) = sum[i / 4][i % 4];
}

/// Ones in registers times ones, twice: each result is 16. n: 0 right, 1 the operand is read meanwhile, which is right,
/// 2 it changes before the wait, 3 before it is settled, 4 it is settled before the wait, 5 it changes behind the
/// second product's fence.
static __global__ void wgmma_operand_mistake(float* out, const float*, int64_t n) {
  unsigned char* const tile = aligned_shared();
  for (int i = threadIdx.x; i < 4096; i += 128) reinterpret_cast<uint16_t*>(tile)[i] = 0x3c00;
  kernels::fence_async_proxy();
  __syncthreads();
  const uint64_t b = Layout{3, 64}.descriptor(kernels::shared_address(tile));
  uint32_t ones[1][4];
  float sum[8][4] = {};
  for (uint32_t& two : ones[0]) two = 0x3c003c00;
  kernels::wgmma_fence();
  kernels::wgmma_m64n64k16_registers<__half>(sum, ones[0], b, false);
  kernels::wgmma_commit();
  if (n == 1) out[threadIdx.x] = static_cast<float>(ones[0][threadIdx.x % 4]);
  if (n == 2) ones[0][threadIdx.x % 4] = 0;  // @operand_early
  if (n == 4) kernels::wgmma_settle(ones);   // @settled_early
  kernels::wgmma_wait<0>();
  if (n == 3) ones[0][threadIdx.x % 4] = 0;  // @operand_unsettled
  kernels::wgmma_settle(ones);
  kernels::wgmma_settle(sum);
  kernels::wgmma_fence();
  if (n == 5) ones[0][threadIdx.x % 4] = 0x3c003c00;
  kernels::wgmma_m64n64k16_registers<__half>(sum, ones[0], b, false);  // @second_product
  kernels::wgmma_commit();
  kernels::wgmma_wait<0>();
  kernels::wgmma_settle(sum);
  out[threadIdx.x] = sum[7][3];
}

}  // namespace tenfold::test
