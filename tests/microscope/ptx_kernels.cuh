#pragma once
// Tensor cores and asynchronous copies, a question each; the mistakes are at the line that the @marker names.
// ptx_test.cpp asks.
#include "kernels/ptx.cuh"
#include "kernels/ptx_8bit.cuh"

namespace tenfold::test {

using kernels::cp_async;
using kernels::cp_async_commit;
using kernels::cp_async_wait;

// --- registers -------------------------------------------------------------------------------------------------------
/// out[i] has the bits of elements 2i and 2i + 1.
template <class T>
static __global__ void register_of_two(float* out, const float* in, int64_t) {
  out[threadIdx.x] = __uint_as_float(kernels::register_of<T>(in[2 * threadIdx.x], in[2 * threadIdx.x + 1]));
}

// --- mma -------------------------------------------------------------------------------------------------------------
/// Two neighbours of a row, or with `step` of a column, in one register.
template <class T>
__device__ inline uint32_t two(const T* first, int step = 1) {
  uint16_t low, high;
  memcpy(&low, first, 2);
  memcpy(&high, first + step, 2);
  return uint32_t{high} << 16 | low;
}

/// out (16, 8) += A (16, 16) * B (16, 8), which lie one after the other in `in`; fragments by the tables of the PTX
/// ISA.
template <class T>
static __global__ void mma_product(float* out, const T* in, int64_t) {
  const T* b_matrix = in + 256;
  const int group = threadIdx.x / 4, t = threadIdx.x % 4;
  const uint32_t a[4] = {two(in + group * 16 + 2 * t), two(in + (group + 8) * 16 + 2 * t),
                         two(in + group * 16 + 2 * t + 8), two(in + (group + 8) * 16 + 2 * t + 8)};
  const uint32_t b[2] = {two(b_matrix + 2 * t * 8 + group, 8), two(b_matrix + (2 * t + 8) * 8 + group, 8)};
  float* places[4] = {out + group * 8 + 2 * t, out + group * 8 + 2 * t + 1, out + (group + 8) * 8 + 2 * t,
                      out + (group + 8) * 8 + 2 * t + 1};
  float c[4];
  for (int i = 0; i < 4; ++i) c[i] = *places[i];
  kernels::mma_m16n8k16<T>(c, a, b, c);
  for (int i = 0; i < 4; ++i) *places[i] = c[i];
}

/// The same through shared memory and ldmatrix.
template <class T>
static __global__ void mma_ldmatrix(float* out, const T* in, int64_t) {
  alignas(16) __shared__ T a_tile[16][16];
  alignas(16) __shared__ T b_tile[16][8];
  const int lane = threadIdx.x, group = lane / 4, t = lane % 4;
  for (int i = lane; i < 256; i += 32) a_tile[i / 16][i % 16] = in[i];
  for (int i = lane; i < 128; i += 32) b_tile[i / 8][i % 8] = in[256 + i];
  __syncwarp();
  uint32_t a[4], b[2];
  kernels::ldmatrix_x4(a, &a_tile[lane % 16][lane / 16 * 8]);
  kernels::ldmatrix_x2_trans(b, &b_tile[lane % 16][0]);
  float d[4];
  const float zero[4] = {};
  kernels::mma_m16n8k16<T>(d, a, b, zero);
  for (int i = 0; i < 4; ++i) out[(group + i / 2 * 8) * 8 + 2 * t + i % 2] += d[i];
}

/// out (16, 8) += A (16, 8) * B (8, 8) in tf32; n = 0: cut off by the instruction, 1: rounded before.
static __global__ void mma_tf32(float* out, const float* in, int64_t n) {
  const float* b_matrix = in + 128;
  const int group = threadIdx.x / 4, t = threadIdx.x % 4;
  const auto number = [&](float value) { return n == 0 ? __float_as_uint(value) : kernels::to_tf32(value); };
  const uint32_t a[4] = {number(in[group * 8 + t]), number(in[(group + 8) * 8 + t]), number(in[group * 8 + t + 4]),
                         number(in[(group + 8) * 8 + t + 4])};
  const uint32_t b[2] = {number(b_matrix[t * 8 + group]), number(b_matrix[(t + 4) * 8 + group])};
  float* places[4] = {out + group * 8 + 2 * t, out + group * 8 + 2 * t + 1, out + (group + 8) * 8 + 2 * t,
                      out + (group + 8) * 8 + 2 * t + 1};
  float c[4];
  for (int i = 0; i < 4; ++i) c[i] = *places[i];
  kernels::mma_m16n8k8_tf32(c, a, b, c);
  for (int i = 0; i < 4; ++i) *places[i] = c[i];
}

__device__ inline void mma_eight_bits(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  kernels::mma_m16n8k32_s8(d, a, b, d);
}
__device__ inline void mma_eight_bits(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  kernels::mma_m16n8k32_e4m3(d, a, b, d);
}

/// out (16, 8) += A (16, 32) * B (32, 8) of 8 bits: int8 with sums in int, e4m3 with sums in float. In `in` lie A and,
/// with k innermost as well, B. n: 0 fragments by the tables of the PTX ISA, 1 by ldmatrix.
template <class Sum>
static __global__ void mma_eight_bit_product(Sum* out, const uint8_t* in, int64_t n) {
  alignas(16) __shared__ uint8_t tile[24 * 32];
  const int lane = threadIdx.x, group = lane / 4, t = lane % 4;
  for (int i = lane; i < 24 * 32; i += 32) tile[i] = in[i];
  __syncwarp();
  uint32_t a[4], b[2];
  if (n == 0) {
    for (int r = 0; r < 4; ++r) memcpy(&a[r], tile + (group + r % 2 * 8) * 32 + r / 2 * 16 + 4 * t, 4);
    for (int r = 0; r < 2; ++r) memcpy(&b[r], tile + (16 + group) * 32 + r * 16 + 4 * t, 4);
  } else {
    kernels::ldmatrix_x4(a, tile + lane % 16 * 32 + lane / 16 * 16);
    kernels::ldmatrix_x2(b, tile + (16 + lane % 8) * 32 + lane / 8 % 2 * 16);
  }
  Sum sums[4];
  for (int i = 0; i < 4; ++i) sums[i] = out[(group + i / 2 * 8) * 8 + 2 * t + i % 2];
  mma_eight_bits(sums, a, b);
  for (int i = 0; i < 4; ++i) out[(group + i / 2 * 8) * 8 + 2 * t + i % 2] = sums[i];
}

/// in[i] has four e4m3, out[2 * i] and the next one two half each.
static __global__ void e4m3_as_halves(uint32_t* out, const uint32_t* in, int64_t) {
  for (int half = 0; half < 2; ++half) out[2 * threadIdx.x + half] = kernels::halves_of_e4m3(in[threadIdx.x], half);
}

/// Lane 31 has left.
static __global__ void mma_31_lanes(float* out, const float*, int64_t) {
  if (threadIdx.x == 31) return;
  const uint32_t a[4] = {}, b[2] = {};
  float d[4] = {};
  kernels::mma_m16n8k16<__half>(d, a, b, d);  // @mma_31_lanes
  out[threadIdx.x] = d[0];
}

/// The lanes of a warp at two instructions; a GPU's behaviour is undefined.
static __global__ void mma_in_branches(float* out, const float*, int64_t) {
  const uint32_t a[4] = {}, b[2] = {};
  float d[4] = {};
  if (threadIdx.x < 16) {
    kernels::mma_m16n8k16<__half>(d, a, b, d);
  } else {
    kernels::mma_m16n8k16<__half>(d, a, b, d);  // @mma_in_branches
  }
  out[threadIdx.x] = d[0];
}

// --- ldmatrix --------------------------------------------------------------------------------------------------------
/// 32 rows of 8 elements in scattered places; out[4 * lane + m] are the registers. n: 0 x4, 1 x4.trans, 2 x2, 3
/// x2.trans.
static __global__ void ldmatrix_registers(uint32_t* out, const uint16_t* in, int64_t n) {
  alignas(16) __shared__ uint16_t tile[32 * 8];
  const int lane = threadIdx.x, place = lane * 5 % 32;
  for (int i = 0; i < 8; ++i) tile[place * 8 + i] = in[lane * 8 + i];
  __syncwarp();
  uint32_t four[4] = {}, pair[2] = {};
  if (n == 0) kernels::ldmatrix_x4(four, &tile[place * 8]);
  if (n == 1) kernels::ldmatrix_x4_trans(four, &tile[place * 8]);
  if (n == 2) kernels::ldmatrix_x2(pair, lane < 16 ? &tile[place * 8] : tile);
  if (n == 3) kernels::ldmatrix_x2_trans(pair, lane < 16 ? &tile[place * 8] : tile);
  for (int m = 0; m < 4; ++m) out[4 * lane + m] = n < 2 ? four[m] : m < 2 ? pair[m] : 0;
}

/// Rows n elements apart; below 0: 64 apart, with the 16-byte pieces of a row exchanged by the row's number.
static __global__ void ldmatrix_stride(uint32_t* out, const uint16_t*, int64_t n) {
  alignas(128) __shared__ uint16_t tile[16 * 96];
  const int lane = threadIdx.x, row = lane % 16, piece = lane / 16;
  for (int i = lane; i < 16 * 96; i += 32) tile[i] = static_cast<uint16_t>(i);
  __syncwarp();
  uint32_t registers[4];
  const uint16_t* from = n < 0 ? tile + row * 64 + (piece ^ row % 8) * 8 : tile + row * n + piece * 8;
  kernels::ldmatrix_x4(registers, from);  // @ldmatrix_stride
  out[lane] = registers[0] ^ registers[1] ^ registers[2] ^ registers[3];
}

static __global__ void ldmatrix_pair(uint32_t* out, const uint16_t*, int64_t) {
  alignas(128) __shared__ uint16_t tile[16 * 8];
  for (int i = threadIdx.x; i < 16 * 8; i += 32) tile[i] = 1;
  __syncwarp();
  uint32_t registers[2];
  kernels::ldmatrix_x2(registers, tile + threadIdx.x % 16 * 8);  // @ldmatrix_pair
  out[threadIdx.x] = registers[0];
}

static __global__ void ldmatrix_race(uint32_t* out, const uint16_t*, int64_t) {
  alignas(16) __shared__ uint16_t tile[32 * 8];
  for (int i = 0; i < 8; ++i) tile[i * 32 + threadIdx.x] = 1;  // @ldmatrix_store
  uint32_t registers[4];
  kernels::ldmatrix_x4(registers, tile + threadIdx.x * 8);  // @ldmatrix_load
  out[threadIdx.x] = registers[0];
}

/// Rows begin n bytes off.
static __global__ void ldmatrix_misaligned(uint32_t* out, const uint16_t*, int64_t n) {
  uint32_t registers[4];
  kernels::ldmatrix_x4(registers, kernels::dynamic_shared<char>() + threadIdx.x * 16 + n);  // @ldmatrix_misaligned
  out[threadIdx.x] = registers[0];
}

/// The last n lanes name rows behind the end of 512 bytes.
static __global__ void ldmatrix_outside(uint32_t* out, const uint16_t*, int64_t n) {
  uint32_t registers[4];
  kernels::ldmatrix_x4(registers, kernels::dynamic_shared<char>() + (threadIdx.x + n) * 16);  // @ldmatrix_outside
  out[threadIdx.x] = registers[0];
}

static __global__ void ldmatrix_global(uint32_t* out, const uint16_t* in, int64_t) {
  uint32_t registers[4];
  kernels::ldmatrix_x4(registers, in + threadIdx.x % 16 * 8);  // @ldmatrix_global
  out[threadIdx.x] = registers[0];
}

// --- cp.async --------------------------------------------------------------------------------------------------------
/// Turns 128 values around by way of shared memory. What is missing, by n: 0 nothing, 1 the wait, 2 the barrier, 3 the
/// commit.
static __global__ void copy_reverse(float* out, const float* in, int64_t n) {
  __shared__ float tile[128];
  __syncthreads();                                    // so that the copy does not land before the first barrier
  cp_async<4>(&tile[threadIdx.x], &in[threadIdx.x]);  // @copy
  if (n != 3) cp_async_commit();
  if (n != 1) cp_async_wait<0>();
  if (n != 2) __syncthreads();
  out[threadIdx.x] = tile[127 - threadIdx.x];  // @copied_load
}

/// A thread reads what it copied itself, which is right only after the wait.
static __global__ void copy_own(float* out, const float* in, int64_t n) {
  __shared__ float tile[32];
  cp_async<4>(&tile[threadIdx.x], &in[threadIdx.x]);  // @own_copy
  cp_async_commit();
  if (n != 0) cp_async_wait<0>();
  out[threadIdx.x] = tile[threadIdx.x];  // @own_load
}

/// Sums n tiles of 32 values with two buffers. `kBarrier`: behind the reading of a tile, before the copy that
/// overwrites it.
template <bool kBarrier>
static __global__ void copy_pipeline(float* out, const float* in, int64_t n) {
  __shared__ float tile[2][64];
  const auto start = [&](int64_t step) {
    if (step < n) cp_async<4>(&tile[step % 2][threadIdx.x], &in[step * 64 + threadIdx.x]);  // @pipeline_copy
    cp_async_commit();
  };
  float sum = 0;
  start(0);
  for (int64_t step = 0; step < n; ++step) {
    start(step + 1);
    cp_async_wait<1>();
    __syncthreads();
    sum += tile[step % 2][63 - threadIdx.x];  // @pipeline_load
    if constexpr (kBarrier) __syncthreads();
  }
  out[threadIdx.x] = sum;
}

/// Three groups; only what cp_async_wait<1> brings is read: tile 0 and 1 of 2.
static __global__ void copy_groups(float* out, const float* in, int64_t n) {
  __shared__ float tile[3][32];
  for (int group = 0; group < 3; ++group) {
    cp_async<4>(&tile[group][threadIdx.x], &in[group * 32 + threadIdx.x]);  // @group_copy
    cp_async_commit();
  }
  cp_async_wait<1>();
  out[threadIdx.x] = tile[0][threadIdx.x] + tile[n][threadIdx.x];  // @group_load
}

/// kBytes each, of which the first n come from `in`.
template <int kBytes>
static __global__ void copy_part(uint8_t* out, const uint8_t* in, int64_t n) {
  alignas(16) __shared__ uint8_t tile[32 * kBytes];
  uint8_t* mine = &tile[threadIdx.x * kBytes];
  cp_async<kBytes>(mine, in + threadIdx.x * kBytes, static_cast<int>(n));  // @part
  cp_async_commit();
  cp_async_wait<0>();
  for (int i = 0; i < kBytes; ++i) out[threadIdx.x * kBytes + i] = mine[i];
}

/// Rows of 128 bytes, copied from and to places n pieces of 16 bytes apart.
static __global__ void copy_strided(float4* out, const float4* in, int64_t n) {
  alignas(128) __shared__ float4 tile[32 * 8];
  cp_async<16>(&tile[threadIdx.x * n], in + threadIdx.x * n);  // @strided_copy
  cp_async_commit();
  cp_async_wait<0>();
  out[threadIdx.x] = tile[threadIdx.x * n];
}

/// n: 0 the source ends too early, 1 shared memory does, 2 the target is no shared memory, 3 and 4 misaligned source
/// and target, 5 more than there is room for.
static __global__ void copy_fault(float* out, const float* in, int64_t n) {
  alignas(16) __shared__ float tile[64 * 4];
  char* to = reinterpret_cast<char*>(tile + threadIdx.x * 4);
  const char* from = reinterpret_cast<const char*>(in + threadIdx.x * 4);
  if (n == 0) cp_async<16>(to, in + 1024 - 64 + threadIdx.x * 4);                           // @source_ends
  if (n == 1) cp_async<16>(kernels::dynamic_shared<char>() + 16 + threadIdx.x * 16, from);  // @target_ends
  if (n == 2) cp_async<16>(out + threadIdx.x * 4, from);                                    // @not_shared
  if (n == 3) cp_async<16>(to, from + 4);                                                   // @misaligned_source
  if (n == 4) cp_async<16>(to + 8, from);                                                   // @misaligned_target
  if (n == 5) cp_async<16>(to, from, 20);                                                   // @too_much
  cp_async_commit();
  cp_async_wait<0>();
}

}  // namespace tenfold::test
