#pragma once
// Matrix product of 16-bit matrices: a ladder from CUDA cores to tensor cores with a pipeline of asynchronous copies.

#include <cstdint>

namespace tenfold::kernels {

inline constexpr int kHgemmRungs = 5;
/// One more rung, for GPUs of compute capability 9.0 alone.
inline constexpr int kHgemmHopperRung = 5;

/// C (m, n) = A (m, k) * B (k, n), all __half or all __nv_bfloat16 and row-major without gaps; C overlaps neither A nor
/// B. Sums are float32 and rounded once, on the way to C. Rungs: 0 CUDA cores, 1 mma, 2 ldmatrix, 3 cp.async, 4 large
/// tile; 5 wgmma, which is compiled for 9.0a alone. Every rung takes every shape and alignment; packets of 16 bytes,
/// which cp.async and TMA are made of, need k and n divisible by 8 and 16-byte aligned pointers, else values are loaded
/// one by one, and rung 5 leaves the work to rung 4. Throws std::invalid_argument for a size below 1 or above 2^30 or
/// an unknown rung; std::runtime_error on a GPU before compute capability 8.0 for every rung but 0, and for rung 5
/// under the microscope, on every other GPU than Hopper's, and where it was not built. Sources of the ideas: NVIDIA
/// CUTLASS documentation, "Efficient GEMM in CUDA"; NVIDIA, "PTX ISA", "mma", "ldmatrix", "cp.async".
template <class T, class Stream>
void hgemm(Stream stream, T* c, const T* a, const T* b, int64_t m, int64_t n, int64_t k, int rung = kHgemmRungs - 1);

}  // namespace tenfold::kernels
