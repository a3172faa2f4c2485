#pragma once
// Sequences of different lengths: from a padded batch to rows one after the other, and back.

#include <cstdint>

namespace tenfold::kernels {

inline constexpr int kPackRungs = 3;

/// packed (total, width) = the rows of `padded` (batch, length, width) that are no padding, sequence after sequence;
/// all row-major. cu_seqlens (batch + 1) says where: sequence b is rows cu_seqlens[b] to cu_seqlens[b + 1] - 1 of
/// `packed`, and as many of the first rows of padded[b]. So cu_seqlens[0] is 0, it never falls (two equal ones are an
/// empty sequence), its last entry is `total`, and no sequence is longer than `length`. Whatever it holds, nothing
/// outside the arrays is read or written: a packed row that it gives to no sequence, or to a padded row past `length`,
/// becomes NaN, which no loss survives unseen. T is float, __half or __nv_bfloat16, and values are copied as they are;
/// Offset is int32_t or int64_t. The gradient of pack is unpack with padding 0. Rungs: 0 a thread per element, 1 a
/// block per row, 2 the same with 16-byte accesses where the rows allow them. `packed` must not overlap the inputs.
/// With a `total` of 0 nothing happens. Throws std::invalid_argument for a batch, length or width below 1, a negative
/// total, more than 2^31 - 1 padded or packed rows, 2^38 elements or more, or an unknown rung.
template <class T, class Offset, class Stream>
void pack(Stream stream, T* packed, const T* padded, const Offset* cu_seqlens, int64_t batch, int64_t length,
          int64_t width, int64_t total, int rung = kPackRungs - 1);

/// The inverse: padded (batch, length, width) from packed (total, width), with `padding` (rounded to T) in every row
/// behind a sequence's end. Rows of a sequence past `length` are left out, and rows past `total` are padding. The
/// gradient of unpack is pack: what flows into padding is lost. Rungs, types and errors as for pack.
template <class T, class Offset, class Stream>
void unpack(Stream stream, T* padded, const T* packed, const Offset* cu_seqlens, int64_t batch, int64_t length,
            int64_t width, int64_t total, float padding = 0, int rung = kPackRungs - 1);

}  // namespace tenfold::kernels
