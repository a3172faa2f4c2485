#include "bias_gelu.h"

#include <algorithm>

#include "bias_gelu.cuh"

namespace tenfold::kernels {
namespace {

constexpr dim3 kBlock(kTileColumns, kTileRows);

/// Four rows for each thread where there are enough: its bias is then read once for four values.
dim3 forward_grid(int64_t rows, int64_t columns, int columns_per_thread) {
  return {blocks_for(columns, kTileColumns * columns_per_thread), std::min(blocks_for(rows, 4 * kTileRows), 65535U)};
}

template <Gelu form, bool kShort, class T, class Stream>
void forward_packets(Stream stream, T* out, const T* in, const T* bias, int64_t rows, int64_t columns) {
  if (packets_fit<T>(columns, {out, in, bias})) {
    const dim3 grid = forward_grid(rows, columns, kPacket<T>);
    launch(stream, grid, kBlock, 0, bias_gelu_packets<T, kPacket<T>, form, kShort>, out, in, bias, rows, columns);
  } else {
    launch(stream, forward_grid(rows, columns, 1), kBlock, 0, bias_gelu_packets<T, 1, form, kShort>, out, in, bias,
           rows, columns);
  }
}

template <Gelu form, class T, class Stream>
void forward(Stream stream, T* out, const T* in, const T* bias, int64_t rows, int64_t columns, int rung) {
  if (rung == 0) {
    const dim3 grid = forward_grid(rows, columns, 1);
    launch(stream, grid, kBlock, 0, add_bias<T>, out, in, bias, rows, columns);
    launch(stream, grid, kBlock, 0, gelu_in_place<T, form>, out, rows, columns);
  } else if (rung == 1) {
    launch(stream, forward_grid(rows, columns, 1), kBlock, 0, bias_gelu_fused<T, form>, out, in, bias, rows, columns);
  } else if (rung == 2) {
    forward_packets<form, false>(stream, out, in, bias, rows, columns);
  } else {
    forward_packets<form, true>(stream, out, in, bias, rows, columns);
  }
}

template <Gelu form, int N, class T, class Stream>
void backward(Stream stream, T* grad_in, T* grad_bias, float* workspace, const T* grad_out, const T* in, const T* bias,
              int64_t rows, int64_t columns) {
  const int64_t parts = bias_gelu_parts(rows);
  const dim3 grid(blocks_for(columns, kTileColumns * N), static_cast<unsigned>(parts));
  launch(stream, grid, kBlock, 0, bias_gelu_gradient<T, N, form>, grad_in, workspace, grad_out, in, bias, rows,
         columns);
  launch(stream, blocks_for(columns, kTileColumns), kBlock, 0, add_parts<T>, grad_bias, workspace, parts, columns);
}

}  // namespace

template <class T, class Stream>
void bias_gelu(Stream stream, T* out, const T* in, const T* bias, int64_t rows, int64_t columns, Gelu form, int rung) {
  check_rows("bias_gelu", rows, columns);
  if (rung < 0 || rung >= kBiasGeluRungs) throw no_such_rung("bias_gelu", rung, kBiasGeluRungs);
  const auto run = form == Gelu::exact ? forward<Gelu::exact, T, Stream> : forward<Gelu::tanh, T, Stream>;
  run(stream, out, in, bias, rows, columns, rung);
}

template <class T, class Stream>
void bias_gelu_backward(Stream stream, T* grad_in, T* grad_bias, float* workspace, const T* grad_out, const T* in,
                        const T* bias, int64_t rows, int64_t columns, Gelu form) {
  check_rows("bias_gelu_backward", rows, columns);
  const bool exact = form == Gelu::exact;
  auto run = exact ? backward<Gelu::exact, 1, T, Stream> : backward<Gelu::tanh, 1, T, Stream>;
  if (packets_fit<T>(columns, {grad_in, grad_out, in, bias})) {
    run = exact ? backward<Gelu::exact, kPacket<T>, T, Stream> : backward<Gelu::tanh, kPacket<T>, T, Stream>;
  }
  run(stream, grad_in, grad_bias, workspace, grad_out, in, bias, rows, columns);
}

template void bias_gelu(Stream, float*, const float*, const float*, int64_t, int64_t, Gelu, int);
template void bias_gelu(Stream, __half*, const __half*, const __half*, int64_t, int64_t, Gelu, int);
template void bias_gelu(Stream, __nv_bfloat16*, const __nv_bfloat16*, const __nv_bfloat16*, int64_t, int64_t, Gelu,
                        int);
template void bias_gelu_backward(Stream, float*, float*, float*, const float*, const float*, const float*, int64_t,
                                 int64_t, Gelu);
template void bias_gelu_backward(Stream, __half*, __half*, float*, const __half*, const __half*, const __half*, int64_t,
                                 int64_t, Gelu);
template void bias_gelu_backward(Stream, __nv_bfloat16*, __nv_bfloat16*, float*, const __nv_bfloat16*,
                                 const __nv_bfloat16*, const __nv_bfloat16*, int64_t, int64_t, Gelu);

}  // namespace tenfold::kernels
