#pragma once
// red.global.add of two neighbours of 16 bits, as kernels/ptx.cuh has its instructions: for nvcc the instruction, for
// the microscope a body on the host.
//
// Source: NVIDIA, "PTX ISA", release 9.0, section "red": f16x2 is there from compute capability 6.0 on, bf16x2
// from 9.0. Each half is added by itself, and rounded to nearest even.

#include "kernels/launch.cuh"

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tenfold::kernels {

/// Adds two neighbours of T (__half or __nv_bfloat16), which are `bits`, to those at `to` in global memory, a multiple
/// of 4 bytes. CUDA's atomicAdd does the same, but takes an address of any memory: nvcc then asks of each whether it is
/// shared, and the old value is sent back. It is what is left for __nv_bfloat16 before 9.0, a loop of compare-and-swap.
template <class T>
__device__ __forceinline__ void red_add_pair(T* to, uint32_t bits) {
  using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
#ifdef __CUDA_ARCH__
  const size_t global = __cvta_generic_to_global(to);
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(global), "r"(bits) : "memory");
    return;
  }
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.noftz.bf16x2 [%0], %1;" ::"l"(global), "r"(bits) : "memory");
  return;
#endif
#endif
  Pair pair;
  memcpy(static_cast<void*>(&pair), &bits, sizeof(pair));
  atomicAdd(reinterpret_cast<Pair*>(to), pair);
}

}  // namespace tenfold::kernels
