#pragma once
// Accesses whose sectors and wavefronts can be counted by hand; counts_test.cpp has done so.
#include "kernels/launch.cuh"

namespace tenfold::test {

/// Eight halves that move together.
struct alignas(16) EightHalves {
  __half values[8];
};

static __global__ void strided(float* out, const float* in, int64_t n) {
  out[threadIdx.x] = in[threadIdx.x * n];  // @strided
}

static __global__ void shifted(float* out, const float* in, int64_t n) {
  out[threadIdx.x] = in[threadIdx.x + n];  // @shifted
}

static __global__ void broadcast(float* out, const float* in, int64_t n) {
  out[threadIdx.x] = in[n];  // @broadcast
}

/// Only lanes whose bit is set in n.
static __global__ void masked(float* out, const float* in, int64_t n) {
  if ((n >> threadIdx.x % 32 & 1) != 0) out[threadIdx.x] = in[threadIdx.x];  // @masked
}

/// A value of each of n sectors, one after the other, and then once more.
static __global__ void sectors_twice(float* out, const float* in, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < 2 * n; ++i) sum += in[i % n * 8];
  out[threadIdx.x] = sum;
}

/// Lane i reads i + 1 values.
static __global__ void ragged_loop(float* out, const float* in, int64_t) {
  float sum = 0;
  for (unsigned i = 0; i <= threadIdx.x; ++i) sum += in[i * 32 + threadIdx.x];  // @ragged
  out[threadIdx.x] = sum;
}

/// One load instruction, two buffers: the lower half of the lanes reads `in`, the upper half `out`.
static __global__ void two_buffers(float* out, const float* in, int64_t) {
  const float* from = threadIdx.x < 16 ? in : out;
  const float value = from[threadIdx.x];  // @two_buffers
  __syncwarp();
  out[threadIdx.x] = value;
}

static __global__ void as_float2(float2* out, const float2* in, int64_t) {
  out[threadIdx.x] = in[threadIdx.x];  // @float2
}
static __global__ void as_float4(float4* out, const float4* in, int64_t) {
  out[threadIdx.x] = in[threadIdx.x];  // @float4
}
static __global__ void as_half(__half* out, const __half* in, int64_t) { out[threadIdx.x] = in[threadIdx.x]; }  // @half
static __global__ void as_eight_halves(EightHalves* out, const EightHalves* in, int64_t) {
  out[threadIdx.x] = in[threadIdx.x];  // @eight_halves
}
static __global__ void as_bfloat16(float* out, const __nv_bfloat16* in, int64_t) {
  out[threadIdx.x] = __bfloat162float(in[threadIdx.x]);  // @bfloat16
}
static __global__ void as_ldg(float4* out, const float4* in, int64_t) {
  const float4 value = __ldg(&in[threadIdx.x]);  // @ldg
  out[threadIdx.x] = {value.w, value.z, value.y, value.x};
}
static __global__ void as_double(double* out, const double* in, int64_t) {
  out[threadIdx.x] = in[threadIdx.x];  // @double
}
struct ThreeFloats {
  float a, b, c;
};
static __global__ void as_three_floats(ThreeFloats* out, const ThreeFloats* in, int64_t) {
  out[threadIdx.x] = in[threadIdx.x];  // @three_floats
}

/// Writes 1024 floats of shared memory side by side and reads with a stride of n.
static __global__ void shared_strided(float* out, const float*, int64_t n) {
  __shared__ float tile[1024];
  for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x) tile[i] = static_cast<float>(i);  // @shared_store
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x * n % 1024];  // @shared_load
}

/// The same with float4, and with doubles.
static __global__ void shared_wide(float4* out, const float4*, int64_t) {
  __shared__ float4 tile[32];
  __shared__ double doubles[32];
  const float4 four = {1, 2, 3, 4};
  tile[threadIdx.x] = four;  // @shared_float4
  doubles[threadIdx.x] = 5;  // @shared_double
  __syncthreads();
  float4 value = tile[31 - threadIdx.x];  // @shared_float4_load
  value.x += static_cast<float>(doubles[threadIdx.x]);
  out[threadIdx.x] = value;
}

/// Columns of n float4 in shared memory: lanes 8 apart share their banks.
static __global__ void shared_float4_column(float4* out, const float4*, int64_t n) {
  __shared__ float4 tile[32 * 8];
  const float4 four = {1, 2, 3, 4};
  for (unsigned i = threadIdx.x; i < 32 * 8; i += 32) tile[i] = four;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x * n];  // @shared_float4_column
}

/// Two halves lie in each word.
static __global__ void shared_half(__half* out, const __half* in, int64_t) {
  __shared__ __half tile[32];
  tile[threadIdx.x] = in[threadIdx.x];  // @shared_half
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}

/// n = 0: one address; else each lane its own.
static __global__ void count_atomics(int* out, const int*, int64_t n) {
  atomicAdd(&out[n == 0 ? 0 : threadIdx.x], 1);  // @atomic
}

/// Writes the last 64 of n elements.
static __global__ void far_end(float* out, const float*, int64_t n) {
  const int64_t i = n - 64 + threadIdx.x;
  out[i] = static_cast<float>(i % 1000);  // @far_store
  __syncthreads();
  if (threadIdx.x == 0) out[0] = out[n - 1];  // @far_load
}

/// The grid reads 64 floats from each block's place and every block writes the same sector.
static __global__ void unique(float* out, const float* in, int64_t) {
  float sum = 0;
  for (int repeat = 0; repeat < 3; ++repeat) sum += in[blockIdx.x * 64 + threadIdx.x];
  if (threadIdx.x < 4) out[blockIdx.x * 4 + threadIdx.x] = sum;
}

}  // namespace tenfold::test
