#pragma once
// The launcher of Hopper's rungs of scaled_gemm, which scaled_gemm() calls: see scaled_gemm.h.

#include <cuda_fp8.h>

#include "scaled_gemm.h"

namespace tenfold::kernels {

/// C (m, n) = A (m, k) * B (n, k)^T of e4m3 by one of rungs 5 to 7, on a GPU of compute capability 9.0 or under the
/// microscope. k must be divisible by 16 and n by 2, A and B begin at multiples of 16 bytes and C at one of 8. Throws
/// std::invalid_argument for more tiles than it can count.
template <class Stream>
void scaled_gemm_hopper(Stream stream, float* c, const __nv_fp8_e4m3* a, const __nv_fp8_e4m3* b, const float* a_scales,
                        const float* b_scales, int64_t m, int64_t n, int64_t k, ScaledGemmScales scales, int rung);

}  // namespace tenfold::kernels
