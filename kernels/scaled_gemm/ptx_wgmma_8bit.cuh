#pragma once
// wgmma with operands of 8 bits, of compute capability 9.0a, in the manner of kernels/ptx_wgmma_hopper.cuh.
//
// Source: NVIDIA, "PTX ISA", release 9.0: "wgmma.mma_async", "Asynchronous Warpgroup Level Matrix Shared Memory
// Layout".

#include "kernels/ptx_wgmma_hopper.cuh"

#include <cuda_fp8.h>

namespace tenfold::kernels {

/// D (64, 128) = A (64, 32) * B (32, 128), plus D with `add`, A and B e4m3, D float, as wgmma_m64n128k16. Both operands
/// have neighbours along the depth, and there is no other way: the instruction can transpose operands of 16 bits only.
/// 32 elements are as many bytes as 16 of 16 bits, so that descriptors and the swizzle are theirs. Products are exact.
/// How their sum is rounded is not specified, and a GPU keeps fewer bits than float has (scaled_gemm_accumulator.h);
/// the microscope adds the 32 products in float64 and rounds their sum with D once, to float.
__device__ __forceinline__ void wgmma_m64n128k32_e4m3(float (&d)[16][4], uint64_t a, uint64_t b, bool add) {
#ifndef __CUDACC__
  simt::warpgroup_multiply(simt::MatrixType::e4m3, 128, &d[0][0], a, b, add, false, false);
#else
  // clang-format off
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
      " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
      " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63},"
      " %64, %65, add, 1, 1;\n"
      "}"
      : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]),
        "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]),
        "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
        "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]),
        "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]),
        "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
        "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]),
        "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3]),
        "+f"(d[8][0]), "+f"(d[8][1]), "+f"(d[8][2]), "+f"(d[8][3]),
        "+f"(d[9][0]), "+f"(d[9][1]), "+f"(d[9][2]), "+f"(d[9][3]),
        "+f"(d[10][0]), "+f"(d[10][1]), "+f"(d[10][2]), "+f"(d[10][3]),
        "+f"(d[11][0]), "+f"(d[11][1]), "+f"(d[11][2]), "+f"(d[11][3]),
        "+f"(d[12][0]), "+f"(d[12][1]), "+f"(d[12][2]), "+f"(d[12][3]),
        "+f"(d[13][0]), "+f"(d[13][1]), "+f"(d[13][2]), "+f"(d[13][3]),
        "+f"(d[14][0]), "+f"(d[14][1]), "+f"(d[14][2]), "+f"(d[14][3]),
        "+f"(d[15][0]), "+f"(d[15][1]), "+f"(d[15][2]), "+f"(d[15][3])
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
  // clang-format on
#endif
}

}  // namespace tenfold::kernels
