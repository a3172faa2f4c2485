#pragma once
// Products of 8-bit operands on tensor cores, int8 and e4m3; as ptx.cuh, each with a second body for the microscope.
//
// Source of every layout: NVIDIA, "PTX ISA", release 9.0, "Matrix Fragments for mma.m16n8k32". int8 has a path for 7.5,
// and e4m3, which is there from 8.9 on, one for all before.

#include "ptx.cuh"

#include <cuda_fp8.h>

#include <cstdint>

namespace tenfold::kernels {

/// D (16, 8) = A (16, 32) * B (32, 8) + C (16, 8), A and B int8, four neighbours of k to a register, the first in the
/// lowest byte; C and D int32.
///   a[0] A(group, 4t..4t+3)          a[1] A(group + 8, 4t..4t+3)          b[0] B(4t..4t+3, group)
///   a[2] A(group, 4t+16..4t+19)      a[3] A(group + 8, 4t+16..4t+19)      b[1] B(4t+16..4t+19, group)      c, d as
///   of mma.m16n8k16
/// Exact; what does not fit in 32 bits wraps.
__device__ __forceinline__ void mma_m16n8k32_s8(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                                const int (&c)[4]) {
#ifndef __CUDACC__
  simt::multiply_matrices(simt::MatrixType::s8, d, a, b, c);
#elif __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
#else
  // Turing's instruction is 8 rows by 16 deep: a quarter of this one.
  const auto quarter = [](int& d0, int& d1, uint32_t a0, uint32_t b0, int c0, int c1) {
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%4,%5};"
                 : "=r"(d0), "=r"(d1)
                 : "r"(a0), "r"(b0), "r"(c0), "r"(c1));
  };
  for (int half = 0; half < 2; ++half) {
    int &d0 = d[2 * half], &d1 = d[2 * half + 1];
    quarter(d0, d1, a[half], b[0], c[2 * half], c[2 * half + 1]);
    quarter(d0, d1, a[half + 2], b[1], d0, d1);
  }
#endif
}

/// Two of the four e4m3 in a register as two __half in one, exactly: the lower two with `half` 0, the upper with 1.
__device__ __forceinline__ uint32_t halves_of_e4m3(uint32_t four, int half) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890  // has an instruction for it
  const __half2_raw two = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(four >> 16 * half), __NV_E4M3);
  return uint32_t{two.y} << 16 | two.x;
#else
  // cuda_fp8.h takes dozens of instructions and a loop here. Exponents of fp16 are larger by 8; denormal numbers, too,
  // are right after a product with 2^8. NaN, all ones behind the sign, would be 480.
  const uint32_t low = four >> 16 * half & 0xffU, high = four >> (16 * half + 8) & 0xffU;
  const uint32_t magnitudes = (low & 0x7fU) | (high & 0x7fU) << 16, signs = (low & 0x80U) << 8 | (high & 0x80U) << 24;
  const uint32_t is_nan = (magnitudes + 0x00010001U) & 0x00800080U;
  const __half2_raw small{static_cast<uint16_t>(magnitudes << 7), static_cast<uint16_t>(magnitudes >> 9)};
  const __half2_raw two = __hmul2(__half2(small), __floats2half2_rn(256, 256));
  return (uint32_t{two.y} << 16 | two.x) | signs | (is_nan >> 7) * 0x7fffU;
#endif
}

/// The same with A and B e4m3, and C and D float. Products are exact. How their sum is rounded is not specified; the
/// microscope adds in float64 and rounds once. Before compute capability 8.9 by way of fp16, which holds every e4m3; on
/// 9.0 and 10.0 ptxas (CUDA 13.0) does the same by itself, since fp8 at full speed is wgmma's and tcgen05's there.
__device__ __forceinline__ void mma_m16n8k32_e4m3(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                                  const float (&c)[4]) {
#ifndef __CUDACC__
  simt::multiply_matrices(simt::MatrixType::e4m3, d, a, b, c);
#elif __CUDA_ARCH__ >= 890
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
#else
  // The order of k is free as long as A and B have the same: bytes 0 and 1 of a register are one instruction's
  // neighbours, bytes 2 and 3 the next one's.
  const auto multiply = [&](int half, const float (&from)[4]) {
    const uint32_t a16[4] = {halves_of_e4m3(a[0], half), halves_of_e4m3(a[1], half), halves_of_e4m3(a[2], half),
                             halves_of_e4m3(a[3], half)};
    const uint32_t b16[2] = {halves_of_e4m3(b[0], half), halves_of_e4m3(b[1], half)};
    mma_m16n8k16<__half>(d, a16, b16, from);
  };
  multiply(0, c);
  multiply(1, d);
#endif
}

}  // namespace tenfold::kernels
