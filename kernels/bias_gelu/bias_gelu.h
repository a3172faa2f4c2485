#pragma once
// GELU of a matrix plus a bias, forward and backward: what follows the first matrix product of a transformer's MLP.

#include <algorithm>
#include <cstdint>

namespace tenfold::kernels {

inline constexpr int kBiasGeluRungs = 4;

/// Which formula: `exact` is x * Phi(x) with erf, PyTorch's approximate="none"; `tanh` the approximation that GPT-2
/// uses.
enum class Gelu { exact, tanh };

/// out = gelu(in + bias); `out` and `in` are (rows, columns), row-major, `bias` (columns). T is float, __half or
/// __nv_bfloat16 and the arithmetic is float's. Rungs: 0 two kernels, one adds and one applies GELU, with the sum
/// rounded to T and kept in `out` between them; 1 fused; 2 fused with 16-byte accesses where the rows allow them; 3
/// `tanh` by one power of two and one division, off by a few units of the last place of |x| at most; `exact` as in
/// rung 2. `out`
/// must not overlap an input. Throws std::invalid_argument for a size below 1, more than 2^31 - 1 rows or an unknown
/// rung. Source: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016 (arXiv:1606.08415).
template <class T, class Stream>
void bias_gelu(Stream stream, T* out, const T* in, const T* bias, int64_t rows, int64_t columns, Gelu form,
               int rung = kBiasGeluRungs - 1);

/// Into how many parts bias_gelu_backward() cuts the rows for the column sums: at least 32 rows each, at most 128
/// parts.
inline int64_t bias_gelu_parts(int64_t rows) { return std::min<int64_t>((rows + 31) / 32, 128); }

/// Size of bias_gelu_backward()'s workspace: a float sum for each part and column.
inline int64_t bias_gelu_workspace_bytes(int64_t rows, int64_t columns) {
  return bias_gelu_parts(rows) * columns * static_cast<int64_t>(sizeof(float));
}

/// The gradients: grad_in = grad_out * gelu'(in + bias), (rows, columns), and grad_bias (columns), its sum over the
/// rows before it is rounded to T. `workspace` has bias_gelu_workspace_bytes(); what it holds before does not matter.
/// No atomics: the same inputs give the same bits every time. Outputs must not overlap inputs. Throws as bias_gelu()
/// does.
template <class T, class Stream>
void bias_gelu_backward(Stream stream, T* grad_in, T* grad_bias, float* workspace, const T* grad_out, const T* in,
                        const T* bias, int64_t rows, int64_t columns, Gelu form);

}  // namespace tenfold::kernels
