#include "pack.h"

#include "pack.cuh"

namespace tenfold::kernels {
namespace {

constexpr unsigned kThreads = 128;  // rung 0

void check(const std::string& kernel, int64_t batch, int64_t length, int64_t width, int64_t total, int rung) {
  const std::string shape =
      "(" + std::to_string(batch) + ", " + std::to_string(length) + ", " + std::to_string(width) + ")";
  if (batch < 1 || length < 1 || width < 1)
    throw std::invalid_argument(kernel + ": the shape " + shape + " has a size below 1");
  if (total < 0) throw std::invalid_argument(kernel + ": a total of " + std::to_string(total) + " rows");
  constexpr int64_t kMost = 0x7fffffff;
  if (batch > kMost / length || total > kMost) {
    throw std::invalid_argument(kernel + ": the shape " + shape + " or its " + std::to_string(total) +
                                " packed rows are more than 2147483647 rows");
  }
  const int64_t rows = batch * length > total ? batch * length : total;
  if (width > (kMost - 1) * kThreads / rows)
    throw std::invalid_argument(kernel + ": the shape " + shape + " has 2^38 elements or more");
  if (rung < 0 || rung >= kPackRungs) throw no_such_rung(kernel, rung, kPackRungs);
}

}  // namespace

template <class T, class Offset, class Stream>
void pack(Stream stream, T* packed, const T* padded, const Offset* cu_seqlens, int64_t batch, int64_t length,
          int64_t width, int64_t total, int rung) {
  check("pack", batch, length, width, total, rung);
  if (total == 0) return;
  if (rung == 0) {
    const unsigned blocks = blocks_for(total * width, kThreads);
    return launch(stream, blocks, kThreads, 0, pack_elements<T, Offset>, packed, padded, cu_seqlens, batch, length,
                  width, total);
  }
  const bool fit = rung == 2 && packets_fit<T>(width, {packed, padded});
  const auto kernel = fit ? pack_rows<T, kPacket<T>, Offset> : pack_rows<T, 1, Offset>;
  const dim3 block = block_for_rows(width);
  launch(stream, blocks_for(total, block.y), block, 0, kernel, packed, padded, cu_seqlens, batch, length, width, total);
}

template <class T, class Offset, class Stream>
void unpack(Stream stream, T* padded, const T* packed, const Offset* cu_seqlens, int64_t batch, int64_t length,
            int64_t width, int64_t total, float padding, int rung) {
  check("unpack", batch, length, width, total, rung);
  const int64_t rows = batch * length;
  if (rung == 0) {
    const unsigned blocks = blocks_for(rows * width, kThreads);
    return launch(stream, blocks, kThreads, 0, unpack_elements<T, Offset>, padded, packed, cu_seqlens, rows, length,
                  width, total, padding);
  }
  const bool fit = rung == 2 && packets_fit<T>(width, {padded, packed});
  const auto kernel = fit ? unpack_rows<T, kPacket<T>, Offset> : unpack_rows<T, 1, Offset>;
  const dim3 block = block_for_rows(width);
  launch(stream, blocks_for(rows, block.y), block, 0, kernel, padded, packed, cu_seqlens, rows, length, width, total,
         padding);
}

template void pack(Stream, float*, const float*, const int32_t*, int64_t, int64_t, int64_t, int64_t, int);
template void pack(Stream, float*, const float*, const int64_t*, int64_t, int64_t, int64_t, int64_t, int);
template void pack(Stream, __half*, const __half*, const int32_t*, int64_t, int64_t, int64_t, int64_t, int);
template void pack(Stream, __half*, const __half*, const int64_t*, int64_t, int64_t, int64_t, int64_t, int);
template void pack(Stream, __nv_bfloat16*, const __nv_bfloat16*, const int32_t*, int64_t, int64_t, int64_t, int64_t,
                   int);
template void pack(Stream, __nv_bfloat16*, const __nv_bfloat16*, const int64_t*, int64_t, int64_t, int64_t, int64_t,
                   int);
template void unpack(Stream, float*, const float*, const int32_t*, int64_t, int64_t, int64_t, int64_t, float, int);
template void unpack(Stream, float*, const float*, const int64_t*, int64_t, int64_t, int64_t, int64_t, float, int);
template void unpack(Stream, __half*, const __half*, const int32_t*, int64_t, int64_t, int64_t, int64_t, float, int);
template void unpack(Stream, __half*, const __half*, const int64_t*, int64_t, int64_t, int64_t, int64_t, float, int);
template void unpack(Stream, __nv_bfloat16*, const __nv_bfloat16*, const int32_t*, int64_t, int64_t, int64_t, int64_t,
                     float, int);
template void unpack(Stream, __nv_bfloat16*, const __nv_bfloat16*, const int64_t*, int64_t, int64_t, int64_t, int64_t,
                     float, int);

}  // namespace tenfold::kernels
