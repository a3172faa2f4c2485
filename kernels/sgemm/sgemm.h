#pragma once
// Matrix product in fp32 on CUDA cores: a ladder of eight kernels, from three nested loops to warp tiles.

#include <cstdint>

namespace tenfold::kernels {

inline constexpr int kSgemmRungs = 8;

/// C (m, n) = alpha * A (m, k) * B (k, n) + beta * C, all float32 and row-major without gaps; C overlaps neither A nor
/// B. As in BLAS, beta 0 means that C is not read, and alpha 0 that A and B are not, whatever lies there. Rungs: 0
/// naive, 1 coalesced, 2 shared tile, 3 one-dimensional register tile, 4 two-dimensional register tile, 5 vector loads,
/// 6 double buffer, 7 warp tile. Every rung takes every shape and alignment; the vector loads of 5 to 7 need k and n
/// divisible by 4 and 16-byte aligned pointers, else those rungs load one float at a time. Throws std::invalid_argument
/// for a size below 1 or above 2^30 or an unknown rung. Sources of the ideas: S. Boehm, "How to Optimize a CUDA Matmul
/// Kernel for cuBLAS-like Performance" (2022); NVIDIA CUTLASS documentation, "Efficient GEMM in CUDA".
template <class Stream>
void sgemm(Stream stream, float* c, const float* a, const float* b, int64_t m, int64_t n, int64_t k, float alpha = 1,
           float beta = 0, int rung = kSgemmRungs - 1);

}  // namespace tenfold::kernels
