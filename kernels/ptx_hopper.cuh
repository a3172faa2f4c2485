#pragma once
// Inline PTX of compute capability 9.0a: wgmma, the bulk tensor copies of TMA, and the barriers in shared memory that
// both report to. For kernels/NAME/NAME_sm90.cu, which nvcc compiles for 9.0a alone. As in ptx.cuh each instruction is
// one function with a second body for the microscope.
//
// Source: NVIDIA, "PTX ISA", release 9.0: "mbarrier", "cp.async.bulk.tensor", "wgmma.mma_async", "setmaxnreg".

#include "ptx.cuh"

#include <cuda.h>

#ifndef __CUDACC__
#include "common/microscope/hopper.h"
#endif

namespace tenfold::kernels {

#ifndef __CUDACC__
/// The 32-bit address that descriptors are made of; what nvcc compiles has it from ptx.cuh.
__device__ __forceinline__ uint32_t shared_address(const void* pointer) { return simt::shared_window_address(pointer); }
#endif

/// Multiprocessors of the GPU that the stream is of, for kernels that start a block on each.
inline int multiprocessors(Stream stream) {
#ifndef __CUDACC__
  return simt::multiprocessors(*stream);
#else
  static_cast<void>(stream);  // of the current GPU
  int device = 0, count = 0;
  check_launch(cudaGetDevice(&device));
  check_launch(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
#endif
}

/// cuTensorMapEncodeTiled: the driver's, which is asked of the runtime, so that nothing is linked with libcuda; under
/// the microscope its own, which takes the same arguments.
static inline auto tensor_map_encoder() {  // static: the microscope has another body
#ifndef __CUDACC__
  return &simt::encode_tensor_map;
#else
  using Encode = decltype(&cuTensorMapEncodeTiled);
  static const Encode encode = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found{};
    check_launch(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess) throw std::runtime_error("the driver has no cuTensorMapEncodeTiled");
    return reinterpret_cast<Encode>(entry);
  }();
  int device = 0;
  check_launch(cudaGetDevice(&device));
  check_launch(cudaSetDevice(device));  // binds this thread's context, which the driver's own calls do not
  return encode;
#endif
}

// --- barriers in shared memory ---------------------------------------------------------------------------------------
// A barrier completes a phase when `arrivals` threads have come and the bytes that were announced have landed. Phases
// have parity 0, 1, 0, ...; a wait for the parity of the phase before the first one returns at once.

__device__ __forceinline__ void mbarrier_init(uint64_t* barrier, int arrivals) {
#ifndef __CUDACC__
  simt::init_mbarrier(barrier, arrivals);
#else
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
#endif
}
/// Makes initialised barriers known to TMA; a __syncthreads must follow for the other threads.
__device__ __forceinline__ void mbarrier_init_fence() {
#ifndef __CUDACC__
  simt::fence_mbarriers();
#else
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

__device__ __forceinline__ void mbarrier_arrive(uint64_t* barrier) {
#ifndef __CUDACC__
  simt::arrive_at_mbarrier(barrier, 0);
#else
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
#endif
}
/// Arrives, and announces `bytes` that copies will bring in this phase.
__device__ __forceinline__ void mbarrier_arrive_expect(uint64_t* barrier, uint32_t bytes) {
#ifndef __CUDACC__
  simt::arrive_at_mbarrier(barrier, bytes);
#else
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
#endif
}
/// Returns when the phase of this parity is complete.
__device__ __forceinline__ void mbarrier_wait(uint64_t* barrier, uint32_t parity) {
#ifndef __CUDACC__
  simt::wait_at_mbarrier(barrier, parity);
#else
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
#endif
}

// --- TMA -------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void tma_prefetch(const CUtensorMap* map) {
#ifndef __CUDACC__
  static_cast<void>(map);  // the microscope has no cache for it
#else
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
#endif
}
/// One thread starts the copy of the map's whole box, which begins at element (x, y) of the tensor, x along its rows;
/// elements outside of the tensor are 0. `shared` must be a multiple of 1024 bytes for boxes in the 128-byte swizzle.
/// The barrier is told of all the box's bytes, those outside included.
__device__ __forceinline__ void tma_load(void* shared, const CUtensorMap* map, uint64_t* barrier, int x, int y) {
#ifndef __CUDACC__
  simt::copy_box(shared, map, barrier, x, y);
#else
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          shared_address(shared)),
      "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier))
      : "memory");
#endif
}

// --- shared memory that both see -------------------------------------------------------------------------------------

/// Between ordinary stores to shared memory and wgmma that reads them: by the threads that stored, before the barrier
/// that the others wait at, or by those behind it.
__device__ __forceinline__ void fence_async_proxy() {
#ifndef __CUDACC__
  simt::fence_async_proxy();
#else
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// --- wgmma: the four warps of a warpgroup together, both operands in shared memory -----------------------------------

/// Before the first wgmma, and whenever registers of the sum were touched since.
__device__ __forceinline__ void wgmma_fence() {
#ifndef __CUDACC__
  simt::warpgroup_fence();
#else
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void wgmma_commit() {
#ifndef __CUDACC__
  simt::warpgroup_commit();
#else
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
/// Until at most the kNewest last groups are still running.
template <int kNewest>
__device__ __forceinline__ void wgmma_wait() {
#ifndef __CUDACC__
  simt::warpgroup_wait(kNewest);
#else
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kNewest) : "memory");
#endif
}

/// Keeps the compiler, which does not know that a sum arrives late, from using it before the wait above, or changing it
/// behind a wgmma_fence.
__device__ __forceinline__ void wgmma_settle(float (&d)[32][4]) {
#ifndef __CUDACC__
  simt::warpgroup_settle(&d[0][0], 32 * 4);
#else
#pragma unroll
  for (int j = 0; j < 32; ++j) asm volatile("" : "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])::"memory");
#endif
}

/// Gives registers back, or takes them: the warpgroup has `kRegisters` for each thread from here on, a multiple of 8.
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
#ifdef __CUDACC__  // under the microscope a thread has as many as it likes
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
#ifdef __CUDACC__
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

/// D (64, 256) = A (64, 16) * B (16, 256), plus D with `add`, A and B of T (__half or __nv_bfloat16), D float. A lies
/// in shared memory with neighbours along its rows, B with neighbours along its rows too, which is what the instruction
/// calls transposed; `a` and `b` are the descriptors of wgmma_descriptor. Warp w of the warpgroup holds rows 16 w to 16
/// w + 15 of D; d[j] are 8 columns from 8 j on, laid out over the lanes as by mma_m16n8k16. The instruction runs on: d
/// may be used after wgmma_commit, wgmma_wait and wgmma_settle.
template <class T>
__device__ __forceinline__ void wgmma_m64n256k16(float (&d)[32][4], uint64_t a, uint64_t b, bool add) {
  constexpr bool kHalf = std::is_same_v<T, __half>;
  static_assert(kHalf || std::is_same_v<T, __nv_bfloat16>);
#ifndef __CUDACC__
  simt::warpgroup_multiply(kHalf ? simt::MatrixType::f16 : simt::MatrixType::bf16, 256, &d[0][0], a, b, add, false,
                           true);
#else
  // clang-format off
#define TENFOLD_WGMMA(type) \
  asm volatile( \
      "{\n" \
      ".reg .pred add;\n" \
      "setp.ne.b32 add, %130, 0;\n" \
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " " \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15," \
      " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31," \
      " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47," \
      " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63," \
      " %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79," \
      " %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95," \
      " %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111," \
      " %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}," \
      " %128, %129, add, 1, 1, 0, 1;\n" \
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
        "+f"(d[15][0]), "+f"(d[15][1]), "+f"(d[15][2]), "+f"(d[15][3]), \
        "+f"(d[16][0]), "+f"(d[16][1]), "+f"(d[16][2]), "+f"(d[16][3]), \
        "+f"(d[17][0]), "+f"(d[17][1]), "+f"(d[17][2]), "+f"(d[17][3]), \
        "+f"(d[18][0]), "+f"(d[18][1]), "+f"(d[18][2]), "+f"(d[18][3]), \
        "+f"(d[19][0]), "+f"(d[19][1]), "+f"(d[19][2]), "+f"(d[19][3]), \
        "+f"(d[20][0]), "+f"(d[20][1]), "+f"(d[20][2]), "+f"(d[20][3]), \
        "+f"(d[21][0]), "+f"(d[21][1]), "+f"(d[21][2]), "+f"(d[21][3]), \
        "+f"(d[22][0]), "+f"(d[22][1]), "+f"(d[22][2]), "+f"(d[22][3]), \
        "+f"(d[23][0]), "+f"(d[23][1]), "+f"(d[23][2]), "+f"(d[23][3]), \
        "+f"(d[24][0]), "+f"(d[24][1]), "+f"(d[24][2]), "+f"(d[24][3]), \
        "+f"(d[25][0]), "+f"(d[25][1]), "+f"(d[25][2]), "+f"(d[25][3]), \
        "+f"(d[26][0]), "+f"(d[26][1]), "+f"(d[26][2]), "+f"(d[26][3]), \
        "+f"(d[27][0]), "+f"(d[27][1]), "+f"(d[27][2]), "+f"(d[27][3]), \
        "+f"(d[28][0]), "+f"(d[28][1]), "+f"(d[28][2]), "+f"(d[28][3]), \
        "+f"(d[29][0]), "+f"(d[29][1]), "+f"(d[29][2]), "+f"(d[29][3]), \
        "+f"(d[30][0]), "+f"(d[30][1]), "+f"(d[30][2]), "+f"(d[30][3]), \
        "+f"(d[31][0]), "+f"(d[31][1]), "+f"(d[31][2]), "+f"(d[31][3]) \
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

}  // namespace tenfold::kernels
