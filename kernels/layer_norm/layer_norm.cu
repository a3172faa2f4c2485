#include "layer_norm.h"

#include "layer_norm.cuh"

#include "kernels/norm_backward.cuh"

namespace tenfold::kernels {
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
    const int64_t of_warp = 32 * kLayerNormHeld * (fit ? kPacket<T> : 1), warps = (columns + of_warp - 1) / of_warp;
    if (rung == 4 && warps == 1) {
      const auto held = fit ? layer_norm_held<T, kPacket<T>, true> : layer_norm_held<T, 1, true>;
      launch(stream, blocks_for(rows, kShortRows), dim3(32, kShortRows), 0, held, out, mean, rstd, in, weight, bias,
             rows, columns, epsilon);
      return;
    }
    if (rung == 4 && warps <= 32) {
      const auto held = fit ? layer_norm_held<T, kPacket<T>, false> : layer_norm_held<T, 1, false>;
      launch(stream, each_row, 32 * static_cast<unsigned>(warps), 0, held, out, mean, rstd, in, weight, bias, rows,
             columns, epsilon);
      return;
    }
    const auto kernel = fit ? layer_norm_packets<T, kPacket<T>> : layer_norm_packets<T, 1>;
    launch(stream, each_row, threads, 0, kernel, out, mean, rstd, in, weight, bias, columns, epsilon);
  }
}

template <class T, class Stream>
void layer_norm_backward(Stream stream, T* grad_in, T* grad_weight, T* grad_bias, float* workspace, const T* grad_out,
                         const T* in, const float* mean, const float* rstd, const T* weight, int64_t rows,
                         int64_t columns, int rung) {
  norm_backward<true>("layer_norm_backward", stream, grad_in, grad_weight, grad_bias, workspace, grad_out, in, mean,
                      rstd, weight, rows, columns, rung);
}

template void layer_norm(Stream, float*, float*, float*, const float*, const float*, const float*, int64_t, int64_t,
                         float, int);
template void layer_norm(Stream, __half*, float*, float*, const __half*, const __half*, const __half*, int64_t, int64_t,
                         float, int);
template void layer_norm(Stream, __nv_bfloat16*, float*, float*, const __nv_bfloat16*, const __nv_bfloat16*,
                         const __nv_bfloat16*, int64_t, int64_t, float, int);
template void layer_norm_backward(Stream, float*, float*, float*, float*, const float*, const float*, const float*,
                                  const float*, const float*, int64_t, int64_t, int);
template void layer_norm_backward(Stream, __half*, __half*, __half*, float*, const __half*, const __half*, const float*,
                                  const float*, const __half*, int64_t, int64_t, int);
template void layer_norm_backward(Stream, __nv_bfloat16*, __nv_bfloat16*, __nv_bfloat16*, float*, const __nv_bfloat16*,
                                  const __nv_bfloat16*, const float*, const float*, const __nv_bfloat16*, int64_t,
                                  int64_t, int);

}  // namespace tenfold::kernels
