#pragma once
// wgmma with operands of 8 bits, a question each. eight_bit_hopper_test.cpp asks.
#include "hopper_kernels.cuh"
#include "kernels/scaled_gemm/ptx_wgmma_8bit.cuh"

namespace tenfold::test {

/// Where element k of row i lies in a tile without a swizzle, and in one in the 128-byte swizzle, in bytes; and the
/// descriptor of such an operand. From the PTX ISA, "Strides" and "Canonical layouts": core matrices are 8 x 16 bytes,
/// of 16 elements along the depth.
struct EightBitLayout {
  bool swizzled;
  __device__ int offset(int i, int k) const {
    if (swizzled) return i * 128 + (k / 16 ^ i % 8) * 16 + k % 16;
    return (i / 8 * 2 + k / 16) * 128 + i % 8 * 16 + k % 16;
  }
  __device__ uint64_t descriptor(uint32_t address) const {
    const auto field = [](int bytes) { return static_cast<uint64_t>(bytes / 16); };
    const uint64_t begin = address >> 4;
    if (swizzled) return uint64_t{1} << 62 | field(1024) << 32 | field(16) << 16 | begin;
    return field(256) << 32 | field(128) << 16 | begin;
  }
};

/// out (64, 128) += A (64, 32) * B (128, 32)^T, which lie one after the other in `in`, row-major; n = 2 * layout of B +
/// layout of A.
static __global__ void wgmma_e4m3(float* out, const uint8_t* in, int64_t n) {
  unsigned char *const a_tile = aligned_shared(), *const b_tile = a_tile + 8192;
  const EightBitLayout a{n % 2 == 1}, b{n / 2 == 1};
  for (int i = threadIdx.x; i < 64 * 32; i += 128) a_tile[a.offset(i / 32, i % 32)] = in[i];
  for (int i = threadIdx.x; i < 128 * 32; i += 128) b_tile[b.offset(i / 32, i % 32)] = in[64 * 32 + i];
  float sum[16][4];
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
  const auto place = [&](int j, int i) { return out + (row + i / 2 * 8) * 128 + 8 * j + column + i % 2; };
  for (int i = 0; i < 64; ++i) sum[i / 4][i % 4] = *place(i / 4, i % 4);
  kernels::fence_async_proxy();
  __syncthreads();
  kernels::wgmma_fence();
  kernels::wgmma_m64n128k32_e4m3(sum, a.descriptor(kernels::shared_address(a_tile)),
                                 b.descriptor(kernels::shared_address(b_tile)), true);
  kernels::wgmma_commit();
  kernels::wgmma_wait<0>();
  kernels::wgmma_settle(sum);
  for (int i = 0; i < 64; ++i) *place(i / 4, i % 4) = sum[i / 4][i % 4];
}

/// n: 0 A has neighbours along its rows, 1 B along its columns, 2 A lies in registers, 3 int8.
static __global__ void wgmma_8bit_mistake(float* out, const float*, int64_t n) {
  const uint64_t operand = EightBitLayout{true}.descriptor(kernels::shared_address(aligned_shared()));
  const uint32_t registers[4] = {};
  const auto type = n == 3 ? simt::MatrixType::s8 : simt::MatrixType::e4m3;
  kernels::wgmma_fence();
  if (n == 2)
    simt::warpgroup_multiply_registers(type, 128, out, registers, operand, false, false);  // @in_registers
  else
    simt::warpgroup_multiply(type, 128, out, operand, operand, false, n == 0, n == 1);  // @refused
}

}  // namespace tenfold::test
