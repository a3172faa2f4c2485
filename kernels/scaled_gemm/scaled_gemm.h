#pragma once
// Matrix product of 8-bit matrices with scales: what fp8 training and int8 inference multiply.

#include <cstdint>
#include <type_traits>

namespace tenfold::kernels {

/// Rungs for every GPU with tensor cores, and with those that are for e4m3 on GPUs of compute capability 9.0 alone:
/// from kScaledGemmRungs on. The microscope runs them all.
inline constexpr int kScaledGemmRungs = 5;
template <class T>
inline constexpr int kScaledGemmAllRungs = std::is_same_v<T, int8_t> ? kScaledGemmRungs : 8;
/// The last rung that the current GPU has, but for those of 9.0 alone, which no GPU has run yet: 4 from compute
/// capability 8.0 on, 3 on Turing (7.5).
inline constexpr int kScaledGemmFastest = -1;

/// How many neighbours along k share a scale, and columns of B with them.
inline constexpr int64_t kScaleBlock = 128;

/// Who shares a scale.
enum class ScaledGemmScales {
  tensor,  ///< all of A, and all of B
  blocks   ///< 1 x 128 values of A (a row of it, 128 of k), 128 x 128 values of B
};

/// C (m, n) = A (m, k) * B (n, k)^T, each value of A and B times its scale. A and B are int8_t or __nv_fp8_e4m3 without
/// gaps, k innermost in both ("TN", the one layout that Hopper's fp8 takes); C is float32, row-major, and overlaps
/// neither. Scales are float32. `tensor`: one each. `blocks`, with K = ceil(k / 128): a_scales (K, m), the rows of A
/// innermost so that rows that are side by side load side by side, and b_scales (ceil(n / 128), K).
///
/// Rungs: 0 dequantise, 1 packed dot, 2 mma, 3 ldmatrix, 4 cp.async; for e4m3, compiled for 9.0a alone: 5 wgmma, 6
/// overlapped, 7 cluster. int8 is summed exactly in int32 within a block of k, or with `tensor` over all of k. e4m3 is
/// multiplied by tensor cores of fp8 on compute capability 8.9, and on 9.0 by rungs 5 to 7; elsewhere rungs 2 to 4, or
/// on 9.0 and 10.0 ptxas, widen it to fp16, which is exact, for those of fp16. Rungs 5 to 7 promote to float32 after
/// each 128 of k, with `tensor` as well. Every rung takes every shape and alignment; packets of 16 bytes, which TMA
/// moves too, need k divisible by 16, an even n, A and B at multiples of 16 bytes and C at one of 8: else values are
/// loaded one by one, and rungs 5 to 7 leave the work to rung 4.
///
/// Throws std::invalid_argument for a size below 1 or above 2^30, for int8 with `tensor` and a k above 131071, whose
/// sum might not fit in int32, and for an unknown rung; std::runtime_error for rung 4 before compute capability 8.0,
/// and for rungs 5 to 7 on every GPU but 9.0, and where they were not built.
///
/// Sources: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.3, <https://arxiv.org/abs/2412.19437>; NVIDIA,
/// "PTX ISA", "mma", "wgmma".
template <class T, class Stream>
void scaled_gemm(Stream stream, float* c, const T* a, const T* b, const float* a_scales, const float* b_scales,
                 int64_t m, int64_t n, int64_t k, ScaledGemmScales scales, int rung = kScaledGemmFastest);

}  // namespace tenfold::kernels
