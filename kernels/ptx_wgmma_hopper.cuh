#pragma once
// More of compute capability 9.0a, in the manner of ptx_hopper.cuh: wgmma with 64 and 128 columns, with its left
// operand in shared memory or in registers; boxes from a stack of matrices; and barriers with a number.
//
// Source: NVIDIA, "PTX ISA", release 9.0: "wgmma.mma_async", "Register Fragments for wgmma.mma_async.m64nNk16",
// "cp.async.bulk.tensor", "bar, barrier".

#include "ptx_hopper.cuh"

namespace tenfold::kernels {

// --- barriers with a number ------------------------------------------------------------------------------------------
// Barriers 1 to 15 of the block; 0 is __syncthreads. Each is for `threads` of the block, whole warps: a phase is over
// when so many have come, by whichever of the two.

/// Arrives, and waits for the others.
__device__ __forceinline__ void named_barrier_sync(int number, int threads) {
#ifndef __CUDACC__
  simt::sync_named_barrier(number, threads);
#else
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
#endif
}
/// Arrives, and goes on.
__device__ __forceinline__ void named_barrier_arrive(int number, int threads) {
#ifndef __CUDACC__
  simt::arrive_at_named_barrier(number, threads);
#else
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
#endif
}

// --- TMA -------------------------------------------------------------------------------------------------------------

/// As tma_load, of the box at (x, y) of matrix z of a stack. What lies outside of the matrix is 0, and not of the next
/// one.
__device__ __forceinline__ void tma_load(void* shared, const CUtensorMap* map, uint64_t* barrier, int x, int y, int z) {
#ifndef __CUDACC__
  simt::copy_box(shared, map, barrier, x, y, z);
#else
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::
          "r"(shared_address(shared)),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier))
      : "memory");
#endif
}

// --- wgmma -----------------------------------------------------------------------------------------------------------

/// As wgmma_settle of ptx_hopper.cuh, for sums of another number of columns.
template <int kEights>
__device__ __forceinline__ void wgmma_settle(float (&d)[kEights][4]) {
#ifndef __CUDACC__
  simt::warpgroup_settle(&d[0][0], kEights * 4);
#else
#pragma unroll
  for (int j = 0; j < kEights; ++j)
    asm volatile("" : "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])::"memory");
#endif
}
/// The same for left operands in registers: they may be changed behind it, and not before.
template <int kSteps>
__device__ __forceinline__ void wgmma_settle(uint32_t (&a)[kSteps][4]) {
#ifndef __CUDACC__
  simt::warpgroup_settle(&a[0][0], kSteps * 4);
#else
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
    asm volatile("" : "+r"(a[k][0]), "+r"(a[k][1]), "+r"(a[k][2]), "+r"(a[k][3])::"memory");
#endif
}

/// D (64, 128) = A (64, 16) * B (16, 128), plus D with `add`, as wgmma_m64n256k16; but both operands have neighbours
/// along the depth: B is a matrix of 128 rows of which each is a column here.
template <class T>
__device__ __forceinline__ void wgmma_m64n128k16(float (&d)[16][4], uint64_t a, uint64_t b, bool add) {
  constexpr bool kHalf = std::is_same_v<T, __half>;
  static_assert(kHalf || std::is_same_v<T, __nv_bfloat16>);
#ifndef __CUDACC__
  simt::warpgroup_multiply(kHalf ? simt::MatrixType::f16 : simt::MatrixType::bf16, 128, &d[0][0], a, b, add, false,
                           false);
#else
  // clang-format off
#define TENFOLD_WGMMA(type) \
  asm volatile( \
      "{\n" \
      ".reg .pred add;\n" \
      "setp.ne.b32 add, %66, 0;\n" \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " " \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15," \
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31," \
      " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47," \
      " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}," \
      " %64, %65, add, 1, 1, 0, 0;\n" \
      "}" \
      : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), \
        "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]), \
        "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), \
        "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), \
        "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), \
        "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), \
        "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), \
        "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3]), \
        "+f"(d[8][0]), "+f"(d[8][1]), "+f"(d[8][2]), "+f"(d[8][3]), \
        "+f"(d[9][0]), "+f"(d[9][1]), "+f"(d[9][2]), "+f"(d[9][3]), \
        "+f"(d[10][0]), "+f"(d[10][1]), "+f"(d[10][2]), "+f"(d[10][3]), \
        "+f"(d[11][0]), "+f"(d[11][1]), "+f"(d[11][2]), "+f"(d[11][3]), \
        "+f"(d[12][0]), "+f"(d[12][1]), "+f"(d[12][2]), "+f"(d[12][3]), \
        "+f"(d[13][0]), "+f"(d[13][1]), "+f"(d[13][2]), "+f"(d[13][3]), \
        "+f"(d[14][0]), "+f"(d[14][1]), "+f"(d[14][2]), "+f"(d[14][3]), \
        "+f"(d[15][0]), "+f"(d[15][1]), "+f"(d[15][2]), "+f"(d[15][3]) \
      : "l"(a), "l"(b), "r"(static_cast<int>(add)))
  if constexpr (kHalf) {
    TENFOLD_WGMMA("f16");
  } else {
    TENFOLD_WGMMA("bf16");
  }
#undef TENFOLD_WGMMA
  // clang-format on
#endif
}

/// D (64, 64) = A (64, 16) * B (16, 64), plus D with `add`. A lies in registers, four of each thread in the layout of
/// mma_m16n8k16's left operand, warp w with rows 16 w to 16 w + 15; B as that of wgmma_m64n256k16. The registers may be
/// changed only behind the wait and wgmma_settle, as the sums.
template <class T>
__device__ __forceinline__ void wgmma_m64n64k16_registers(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b,
                                                          bool add) {
  constexpr bool kHalf = std::is_same_v<T, __half>;
  static_assert(kHalf || std::is_same_v<T, __nv_bfloat16>);
#ifndef __CUDACC__
  simt::warpgroup_multiply_registers(kHalf ? simt::MatrixType::f16 : simt::MatrixType::bf16, 64, &d[0][0], a, b, add,
                                     true);
#else
  // clang-format off
#define TENFOLD_WGMMA(type) \
  asm volatile( \
      "{\n" \
      ".reg .pred add;\n" \
      "setp.ne.b32 add, %37, 0;\n" \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " " \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15," \
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}," \
      " {%32, %33, %34, %35}, %36, add, 1, 1, 1;\n" \
      "}" \
      : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), \
        "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]), \
        "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), \
        "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), \
        "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), \
        "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), \
        "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), \
        "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3]) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)))
  if constexpr (kHalf) {
    TENFOLD_WGMMA("f16");
  } else {
    TENFOLD_WGMMA("bf16");
  }
#undef TENFOLD_WGMMA
  // clang-format on
#endif
}

/// The same for D (64, 128).
template <class T>
__device__ __forceinline__ void wgmma_m64n128k16_registers(float (&d)[16][4], const uint32_t (&a)[4], uint64_t b,
                                                           bool add) {
  constexpr bool kHalf = std::is_same_v<T, __half>;
  static_assert(kHalf || std::is_same_v<T, __nv_bfloat16>);
#ifndef __CUDACC__
  simt::warpgroup_multiply_registers(kHalf ? simt::MatrixType::f16 : simt::MatrixType::bf16, 128, &d[0][0], a, b, add,
                                     true);
#else
  // clang-format off
#define TENFOLD_WGMMA(type) \
  asm volatile( \
      "{\n" \
      ".reg .pred add;\n" \
      "setp.ne.b32 add, %69, 0;\n" \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " " \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15," \
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31," \
      " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47," \
      " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}," \
      " {%64, %65, %66, %67}, %68, add, 1, 1, 1;\n" \
      "}" \
      : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), \
        "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]), \
        "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), \
        "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), \
        "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), \
        "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), \
        "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), \
        "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3]), \
        "+f"(d[8][0]), "+f"(d[8][1]), "+f"(d[8][2]), "+f"(d[8][3]), \
        "+f"(d[9][0]), "+f"(d[9][1]), "+f"(d[9][2]), "+f"(d[9][3]), \
        "+f"(d[10][0]), "+f"(d[10][1]), "+f"(d[10][2]), "+f"(d[10][3]), \
        "+f"(d[11][0]), "+f"(d[11][1]), "+f"(d[11][2]), "+f"(d[11][3]), \
        "+f"(d[12][0]), "+f"(d[12][1]), "+f"(d[12][2]), "+f"(d[12][3]), \
        "+f"(d[13][0]), "+f"(d[13][1]), "+f"(d[13][2]), "+f"(d[13][3]), \
        "+f"(d[14][0]), "+f"(d[14][1]), "+f"(d[14][2]), "+f"(d[14][3]), \
        "+f"(d[15][0]), "+f"(d[15][1]), "+f"(d[15][2]), "+f"(d[15][3]) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)))
  if constexpr (kHalf) {
    TENFOLD_WGMMA("f16");
  } else {
    TENFOLD_WGMMA("bf16");
  }
#undef TENFOLD_WGMMA
  // clang-format on
#endif
}

}  // namespace tenfold::kernels
