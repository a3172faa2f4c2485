#pragma once
// All inline PTX of the kernels: tensor cores (mma.sync), matrix loads from shared memory (ldmatrix), asynchronous
// copies from global to shared memory (cp.async), powers of two (ex2). Each instruction is one function, for nvcc the
// instruction itself and for the microscope a body on the host, so that a kernel on tensor cores is tested without a
// GPU.
//
// Source of every layout: NVIDIA, "PTX ISA", release 9.0, sections "Matrix Fragments for mma.m16n8k16", "Matrix
// Fragments for mma.m16n8k8", "ldmatrix" and "cp.async".
//
// mma.sync of bf16 and tf32, and cp.async, are there from compute capability 8.0 on. A kernel that uses them still
// compiles for 7.5, where they trap; its launcher calls require_ampere first. fp16 has a path for 7.5.

#include "launch.cuh"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace tenfold::kernels {

/// Throws std::runtime_error, one line, where the current GPU has no mma.sync of bf16 and no cp.async.
static inline void require_ampere(const char* kernel) {  // static: the microscope has another body
#ifdef __CUDACC__
  int device = 0, major = 0;
  check_launch(cudaGetDevice(&device));
  check_launch(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  if (major < 8)
    throw std::runtime_error(std::string(kernel) + ": needs a GPU of compute capability 8.0 or later (Ampere)");
#else
  static_cast<void>(kernel);  // the microscope can all of it
#endif
}

#ifdef __CUDACC__
/// The 32-bit address that instructions on shared memory take.
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
#endif

/// 2 to the power of x, in one instruction: within two units in the last place; results below 2^-126 become 0.
__device__ __forceinline__ float exp2_approx(float x) {
#ifndef __CUDACC__
  const float power = std::exp2(x);
  return power < 0x1p-126F ? 0 : power;
#else
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#endif
}

/// Two floats rounded to T (__half or __nv_bfloat16) in one register, as mma takes two neighbours: the first in the
/// lower half.
template <class T>
__device__ inline uint32_t register_of(float low, float high) {
  uint32_t bits;
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 both = __floats2half2_rn(low, high);
    memcpy(&bits, &both, sizeof(bits));
  } else {
    static_assert(std::is_same_v<T, __nv_bfloat16>);
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    memcpy(&bits, &both, sizeof(bits));
  }
  return bits;
}

/// D (16, 8) = A (16, 16) * B (16, 8) + C (16, 8) by the 32 lanes of a warp, A and B of T (__half or __nv_bfloat16), C
/// and D float. d and c may be the same array. With group = lane / 4 and t = lane % 4 a lane holds, two elements to a
/// register, the lower index in the lower half:
///   a[0] A(group, 2t..2t+1)      a[1] A(group + 8, 2t..2t+1)      b[0] B(2t..2t+1, group)       c[0..1] C(group,
///   2t..2t+1) a[2] A(group, 2t+8..2t+9)    a[3] A(group + 8, 2t+8..2t+9)    b[1] B(2t+8..2t+9, group)     c[2..3]
///   C(group + 8, 2t..2t+1)
/// Products are exact. The order in which the hardware adds them, and how it rounds in between, is not specified; the
/// microscope adds in float64 and rounds once.
template <class T>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                             const float (&c)[4]) {
  constexpr bool kHalf = std::is_same_v<T, __half>;
  static_assert(kHalf || std::is_same_v<T, __nv_bfloat16>);
#ifndef __CUDACC__
  simt::multiply_matrices(kHalf ? simt::MatrixType::f16 : simt::MatrixType::bf16, d, a, b, c);
#elif __CUDA_ARCH__ >= 800
  if constexpr (kHalf) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  }
#else
  if constexpr (kHalf) {  // Turing's instruction is 8 deep: each half of the depth by itself
    const auto half = [](float (&to)[4], uint32_t a0, uint32_t a1, uint32_t b0, const float (&from)[4]) {
      asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
                   : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                   : "r"(a0), "r"(a1), "r"(b0), "f"(from[0]), "f"(from[1]), "f"(from[2]), "f"(from[3]));
    };
    half(d, a[0], a[1], b[0], c);
    half(d, a[2], a[3], b[1], d);
  } else {
    __trap();
  }
#endif
}

/// D (16, 8) = A (16, 8) * B (8, 8) + C (16, 8), A and B tf32: the bits of a float of which the upper 19 count, one to
/// a register.
///   a[0] A(group, t)    a[1] A(group + 8, t)    a[2] A(group, t + 4)    a[3] A(group + 8, t + 4)
///   b[0] B(t, group)    b[1] B(t + 4, group)    c and d as above
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                                 const float (&c)[4]) {
#ifndef __CUDACC__
  simt::multiply_matrices(simt::MatrixType::tf32, d, a, b, c);
#elif __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
#else
  __trap();
#endif
}

/// The tf32 nearest to a float, ties away from zero.
__device__ __forceinline__ uint32_t to_tf32(float value) {
#ifndef __CUDACC__
  const uint32_t bits = __float_as_uint(value);
  const bool finite = (bits & 0x7f800000U) != 0x7f800000U;
  return (finite ? bits + 0x1000U : bits) & 0xffffe000U;
#elif __CUDA_ARCH__ >= 800
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
#else
  __trap();
  return 0;
#endif
}

/// Loads four 8 x 8 matrices of 16-bit elements from shared memory into the registers of a warp, where mma wants them.
/// Lane i names, with a pointer that 16 divides, the 8 elements of row i % 8 of matrix i / 8; the rows may lie
/// anywhere. Lane i gets of matrix m, in registers[m], elements 2 * (i % 4) and the next one of row i / 4. All 32 lanes
/// must come.
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&registers)[4], const void* row) {
#ifndef __CUDACC__
  simt::load_matrices(registers, row, 4, false);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(shared_address(row))
               : "memory");
#endif
}

/// The same with each matrix transposed: lane i gets elements i / 4 of rows 2 * (i % 4) and the next one.
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&registers)[4], const void* row) {
#ifndef __CUDACC__
  simt::load_matrices(registers, row, 4, true);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(shared_address(row))
               : "memory");
#endif
}

/// Two matrices: lanes 0 to 15 name the rows. What the others name is not looked at, but on compute capability 7.5 it
/// must be a valid address, too.
__device__ __forceinline__ void ldmatrix_x2(uint32_t (&registers)[2], const void* row) {
#ifndef __CUDACC__
  simt::load_matrices(registers, row, 2, false);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(registers[0]), "=r"(registers[1])
               : "r"(shared_address(row))
               : "memory");
#endif
}

__device__ __forceinline__ void ldmatrix_x2_trans(uint32_t (&registers)[2], const void* row) {
#ifndef __CUDACC__
  simt::load_matrices(registers, row, 2, true);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(registers[0]), "=r"(registers[1])
               : "r"(shared_address(row))
               : "memory");
#endif
}

/// Starts a copy of kBytes (4, 8 or 16, which must divide both addresses) from global to shared memory past the
/// registers. The first source_bytes come from `global`, the rest is 0; with 0 of them `global` is not read. The data
/// are there for the thread after its cp_async_wait, for others after a barrier behind that; before, nobody may touch
/// either place.
template <int kBytes>
__device__ __forceinline__ void cp_async(void* shared, const void* global, int source_bytes = kBytes) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
#ifndef __CUDACC__
  simt::copy_async(shared, global, kBytes, source_bytes);
#elif __CUDA_ARCH__ >= 800
  if constexpr (kBytes == 16) {  // .cg passes L1 by, and moves 16 bytes only
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
                 "r"(source_bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(shared)), "l"(global),
                 "n"(kBytes), "r"(source_bytes)
                 : "memory");
  }
#else
  __trap();
#endif
}

/// Makes a group of the thread's copies since the last commit; of none, if there were none.
__device__ __forceinline__ void cp_async_commit() {
#ifndef __CUDACC__
  simt::commit_copies();
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  __trap();
#endif
}

/// Waits until at most the kNewest last groups of the thread are under way. It waits for no copy that is not yet in a
/// group.
template <int kNewest>
__device__ __forceinline__ void cp_async_wait() {
#ifndef __CUDACC__
  simt::wait_for_copies(kNewest);
#elif __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kNewest) : "memory");
#else
  __trap();
#endif
}

}  // namespace tenfold::kernels
