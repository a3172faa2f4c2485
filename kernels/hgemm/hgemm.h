#pragma once
// Matrix product of 16-bit matrices: a ladder from CUDA cores to tensor cores that never wait for a copy.

#include <cstdint>

namespace tenfold::kernels {

/// Rungs for every GPU with tensor cores; and more, for GPUs of compute capability 9.0 alone, from kHgemmRungs on. The
/// microscope runs them all.
inline constexpr int kHgemmRungs = 5, kHgemmAllRungs = 10;
/// Rungs that a GPU has run: those from here on are not anybody's default yet.
inline constexpr int kHgemmProvenRungs = 8;
/// The fastest proven rung of the current GPU: 7 on Hopper where it was built, 4 from 8.0 on, 2 for __half on
/// Turing (7.5), else 0; under the microscope 4, which every GPU from 8.0 on has.
inline constexpr int kHgemmFastest = -1;

/// Whether Hopper's rungs are in this program: it was built for compute capability 9.0.
bool hgemm_hopper_built();

/// C (m, n) = A (m, k) * B (k, n), all __half or all __nv_bfloat16 and row-major without gaps; C overlaps neither A nor
/// B. Sums are float32 and rounded once, on the way to C. Rungs: 0 CUDA cores, 1 mma, 2 ldmatrix, 3 cp.async, 4 large
/// tile; compiled for 9.0a alone: 5 wgmma, 6 producer, 7 persistent, 8 cluster, 9 TMA store. Every rung takes every
/// shape and alignment; packets of 16 bytes, which cp.async and TMA are made of, need k and n divisible by 8 and
/// 16-byte aligned pointers, else values are loaded one by one, and on Hopper its rungs leave the work to rung 4.
/// Throws std::invalid_argument for a size below 1 or above 2^30 or an unknown rung; std::runtime_error on a GPU before
/// compute capability 8.0 for every rung but 0, and 1 and 2 for __half; and for Hopper's rungs on every other GPU, and
/// where they were not built. Sources of the ideas: NVIDIA CUTLASS documentation, "Efficient GEMM in CUDA"; NVIDIA,
/// "PTX ISA", "mma", "ldmatrix", "cp.async".
template <class T, class Stream>
void hgemm(Stream stream, T* c, const T* a, const T* b, int64_t m, int64_t n, int64_t k, int rung = kHgemmFastest);

}  // namespace tenfold::kernels
