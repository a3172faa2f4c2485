#pragma once
// Softmax over the rows of a matrix, forward and backward.

#include <cstdint>

namespace tenfold::kernels {

inline constexpr int kSoftmaxRungs = 5;

/// out[r, c] = exp(in[r, c]) / sum over c of exp(in[r, c]), both (rows, columns), row-major; T is float, __half or
/// __nv_bfloat16 and the arithmetic is float's. No input overflows, because each row's largest value is subtracted
/// first. An entry of -infinity becomes 0; a row of nothing else, a NaN or +infinity makes its row NaN, as in PyTorch.
/// Rungs: 0 a thread per row, 1 a warp per row, 2 online, 3 a block per row with 16-byte accesses where the rows allow
/// them, 4 with a row of up to 8192 values in registers. `out` and `in` must not overlap. Throws std::invalid_argument
/// for a size below 1, more than 2^31 - 1 rows or an unknown rung. Source of rung 2: Milakov and Gimelshein, "Online
/// normalizer calculation for softmax", 2018 (arXiv:1805.02867).
template <class T, class Stream>
void softmax(Stream stream, T* out, const T* in, int64_t rows, int64_t columns, int rung = kSoftmaxRungs - 1);

/// The gradient: grad_in = out * (grad_out - sum over the row of grad_out * out), where `out` is what softmax() wrote;
/// all (rows, columns). `grad_in` may be `grad_out` or `out`. Throws as softmax() does.
template <class T, class Stream>
void softmax_backward(Stream stream, T* grad_in, const T* grad_out, const T* out, int64_t rows, int64_t columns);

}  // namespace tenfold::kernels
