#pragma once
// Root-mean-square normalisation over the rows of a matrix, forward and backward.

#include <cstdint>

#include "kernels/norm_backward.h"

namespace tenfold::kernels {

inline constexpr int kRmsNormRungs = 3;

/// out = in * rstd * weight with rstd = 1 / sqrt(mean of the row's in * in + epsilon): layer normalisation that
/// subtracts no mean and adds no bias. `out` and `in` are (rows, columns), row-major; `weight` is (columns); `rstd`
/// (rows), always float, is what the backward pass needs. T is float, __half or __nv_bfloat16; the arithmetic is
/// float's and `out` is rounded once, at the end. A row whose squares overflow float becomes 0, as in PyTorch. Rungs: 0
/// a thread per row, 1 a warp per row, 2 a block per row with 16-byte accesses where the rows allow them. `out` must
/// not overlap an input. Throws std::invalid_argument for a size below 1, more than 2^31 - 1 rows or an unknown rung.
/// Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019 (arXiv:1910.07467).
template <class T, class Stream>
void rms_norm(Stream stream, T* out, float* rstd, const T* in, const T* weight, int64_t rows, int64_t columns,
              float epsilon = 1e-5F, int rung = kRmsNormRungs - 1);

/// Size of rms_norm_backward()'s workspace: a float sum for each part and column.
inline int64_t rms_norm_workspace_bytes(int64_t rows, int64_t columns) {
  return norm_parts(rows) * columns * static_cast<int64_t>(sizeof(float));
}

/// The gradients: grad_in (rows, columns) and grad_weight (columns), from grad_out and in (rows, columns), rstd (rows)
/// as rms_norm() wrote it, and weight (columns). `workspace` has rms_norm_workspace_bytes(); what it holds before does
/// not matter. No atomics: the same inputs give the same bits every time. Rungs as those of layer_norm_backward().
/// Outputs must not overlap inputs. Throws as rms_norm() does.
template <class T, class Stream>
void rms_norm_backward(Stream stream, T* grad_in, T* grad_weight, float* workspace, const T* grad_out, const T* in,
                       const float* rstd, const T* weight, int64_t rows, int64_t columns,
                       int rung = kNormBackwardRungs - 1);

}  // namespace tenfold::kernels
