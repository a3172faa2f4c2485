#include "layer_norm.h"

#include "layer_norm.cuh"

namespace tenfold::kernels {
namespace {

template <class T, int N, class Stream>
void backward_by(Stream stream, T* grad_in, T* grad_weight, T* grad_bias, float* workspace, const T* grad_out,
                 const T* in, const float* mean, const float* rstd, const T* weight, int64_t rows, int64_t columns) {
  launch(stream, static_cast<unsigned>(rows), threads_for_row(columns), 0, layer_norm_input_gradient<T, N>, grad_in,
         grad_out, in, mean, rstd, weight, columns);
  const int64_t parts = layer_norm_parts(rows);
  float* weight_parts = workspace;
  float* bias_parts = workspace + parts * columns;
  const dim3 block(kTileColumns, kTileRows);
  const dim3 tiles(blocks_for(columns, kTileColumns * N), static_cast<unsigned>(parts));
  launch(stream, tiles, block, 0, layer_norm_weight_gradient_parts<T, N>, weight_parts, bias_parts, grad_out, in, mean,
         rstd, rows, columns);
  launch(stream, blocks_for(columns, kTileColumns), block, 0, add_parts<T>, grad_weight, weight_parts, parts, columns);
  launch(stream, blocks_for(columns, kTileColumns), block, 0, add_parts<T>, grad_bias, bias_parts, parts, columns);
}

}  // namespace

template <class T, class Stream>
void layer_norm(Stream stream, T* out, float* mean, float* rstd, const T* in, const T* weight, const T* bias,
                int64_t rows, int64_t columns, float epsilon, int rung) {
  check_rows("layer_norm", rows, columns);
  if (rung < 0 || rung >= kLayerNormRungs) throw no_such_rung("layer_norm", rung, kLayerNormRungs);
  const auto each_row = static_cast<unsigned>(rows);
  const unsigned threads = threads_for_row(columns);
  if (rung == 0) {
    launch(stream, blocks_for(rows, 128), 128, 0, layer_norm_thread_per_row<T>, out, mean, rstd, in, weight, bias, rows,
           columns, epsilon);
  } else if (rung == 1) {
    launch(stream, each_row, kTreeThreads, 0, layer_norm_shared<T>, out, mean, rstd, in, weight, bias, columns,
           epsilon);
  } else if (rung == 2) {
    launch(stream, each_row, threads, 0, layer_norm_one_pass<T>, out, mean, rstd, in, weight, bias, columns, epsilon);
  } else {
    const bool fit = packets_fit<T>(columns, {out, in, weight, bias});
    const auto kernel = fit ? layer_norm_packets<T, kPacket<T>> : layer_norm_packets<T, 1>;
    launch(stream, each_row, threads, 0, kernel, out, mean, rstd, in, weight, bias, columns, epsilon);
  }
}

template <class T, class Stream>
void layer_norm_backward(Stream stream, T* grad_in, T* grad_weight, T* grad_bias, float* workspace, const T* grad_out,
                         const T* in, const float* mean, const float* rstd, const T* weight, int64_t rows,
                         int64_t columns) {
  check_rows("layer_norm_backward", rows, columns);
  const bool fit = packets_fit<T>(columns, {grad_in, grad_out, in, weight});
  const auto backward = fit ? backward_by<T, kPacket<T>, Stream> : backward_by<T, 1, Stream>;
  backward(stream, grad_in, grad_weight, grad_bias, workspace, grad_out, in, mean, rstd, weight, rows, columns);
}

template void layer_norm(Stream, float*, float*, float*, const float*, const float*, const float*, int64_t, int64_t,
                         float, int);
template void layer_norm(Stream, __half*, float*, float*, const __half*, const __half*, const __half*, int64_t, int64_t,
                         float, int);
template void layer_norm(Stream, __nv_bfloat16*, float*, float*, const __nv_bfloat16*, const __nv_bfloat16*,
                         const __nv_bfloat16*, int64_t, int64_t, float, int);
template void layer_norm_backward(Stream, float*, float*, float*, float*, const float*, const float*, const float*,
                                  const float*, const float*, int64_t, int64_t);
template void layer_norm_backward(Stream, __half*, __half*, __half*, float*, const __half*, const __half*, const float*,
                                  const float*, const __half*, int64_t, int64_t);
template void layer_norm_backward(Stream, __nv_bfloat16*, __nv_bfloat16*, __nv_bfloat16*, float*, const __nv_bfloat16*,
                                  const __nv_bfloat16*, const float*, const float*, const __nv_bfloat16*, int64_t,
                                  int64_t);

}  // namespace tenfold::kernels
