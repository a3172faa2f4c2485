#pragma once
// Layer normalisation over the rows of a matrix, forward and backward.

#include <cstdint>

#include "kernels/norm_backward.h"

namespace tenfold::kernels {

inline constexpr int kLayerNormRungs = 5;

/// out = (in - mean) * rstd * weight + bias, with the mean of each row and rstd = 1 / sqrt(variance + epsilon), the
/// variance that of the whole row (divided by columns). `out` and `in` are (rows, columns), row-major; `weight` and
/// `bias` (columns); `mean` and `rstd` (rows), always float, are what the backward pass needs. T is float, __half or
/// __nv_bfloat16; the arithmetic is float's. Rungs: 0 a thread per row, 1 a block per row with sums in shared memory, 2
/// mean and variance in one pass with warp shuffles, 3 with 16-byte accesses where the rows allow them, 4 with
/// the row in registers and two plain sums, where it has room there, else as 3. `out` must not
/// overlap an input. Throws std::invalid_argument for a size below 1, more than 2^31 - 1 rows or an unknown rung.
/// Sources: Ba, Kiros and Hinton, "Layer Normalization", 2016 (arXiv:1607.06450); rungs 2 and 3: Welford 1962, and
/// Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
template <class T, class Stream>
void layer_norm(Stream stream, T* out, float* mean, float* rstd, const T* in, const T* weight, const T* bias,
                int64_t rows, int64_t columns, float epsilon = 1e-5F, int rung = kLayerNormRungs - 1);

/// Size of layer_norm_backward()'s workspace: two float sums for each part and column.
inline int64_t layer_norm_workspace_bytes(int64_t rows, int64_t columns) {
  return 2 * norm_parts(rows) * columns * static_cast<int64_t>(sizeof(float));
}

/// The gradients: grad_in (rows, columns), grad_weight and grad_bias (columns), from grad_out and in (rows, columns),
/// mean and rstd (rows) as layer_norm() wrote them, and weight (columns). `workspace` has layer_norm_workspace_bytes();
/// what it holds before does not matter. No atomics: the same inputs give the same bits every time. Rungs: 0 two
/// kernels, which both read everything, 1 one kernel where a row has at most 8192 columns (4096 where it is not made of
/// packets of 16 bytes), else as 0. Outputs must not overlap inputs. Throws as layer_norm() does.
template <class T, class Stream>
void layer_norm_backward(Stream stream, T* grad_in, T* grad_weight, T* grad_bias, float* workspace, const T* grad_out,
                         const T* in, const float* mean, const float* rstd, const T* weight, int64_t rows,
                         int64_t columns, int rung = kNormBackwardRungs - 1);

}  // namespace tenfold::kernels
