#include "rms_norm.h"

#include "rms_norm.cuh"

#include "kernels/norm_backward.cuh"

namespace tenfold::kernels {
namespace {

constexpr unsigned kThreads = 128;  // rungs 0 and 1

}  // namespace

template <class T, class Stream>
void rms_norm(Stream stream, T* out, float* rstd, const T* in, const T* weight, int64_t rows, int64_t columns,
              float epsilon, int rung) {
  check_rows("rms_norm", rows, columns);
  if (rung < 0 || rung >= kRmsNormRungs) throw no_such_rung("rms_norm", rung, kRmsNormRungs);
  if (rung == 0) {
    launch(stream, blocks_for(rows, kThreads), kThreads, 0, rms_norm_thread_per_row<T>, out, rstd, in, weight, rows,
           columns, epsilon);
  } else if (rung == 1) {
    launch(stream, blocks_for(rows, kThreads / 32), kThreads, 0, rms_norm_warp_per_row<T>, out, rstd, in, weight, rows,
           columns, epsilon);
  } else {
    const dim3 block = block_for_rows(columns);
    const bool one_warp = block.y > 1;
    const auto packets = one_warp ? rms_norm_packets<T, kPacket<T>, true> : rms_norm_packets<T, kPacket<T>, false>;
    const auto values = one_warp ? rms_norm_packets<T, 1, true> : rms_norm_packets<T, 1, false>;
    launch(stream, blocks_for(rows, block.y), block, 0, packets_fit<T>(columns, {out, in, weight}) ? packets : values,
           out, rstd, in, weight, rows, columns, epsilon);
  }
}

template <class T, class Stream>
void rms_norm_backward(Stream stream, T* grad_in, T* grad_weight, float* workspace, const T* grad_out, const T* in,
                       const float* rstd, const T* weight, int64_t rows, int64_t columns, int rung) {
  norm_backward<false>("rms_norm_backward", stream, grad_in, grad_weight, static_cast<T*>(nullptr), workspace, grad_out,
                       in, static_cast<const float*>(nullptr), rstd, weight, rows, columns, rung);
}

template void rms_norm(Stream, float*, float*, const float*, const float*, int64_t, int64_t, float, int);
template void rms_norm(Stream, __half*, float*, const __half*, const __half*, int64_t, int64_t, float, int);
template void rms_norm(Stream, __nv_bfloat16*, float*, const __nv_bfloat16*, const __nv_bfloat16*, int64_t, int64_t,
                       float, int);
template void rms_norm_backward(Stream, float*, float*, float*, const float*, const float*, const float*, const float*,
                                int64_t, int64_t, int);
template void rms_norm_backward(Stream, __half*, __half*, float*, const __half*, const __half*, const float*,
                                const __half*, int64_t, int64_t, int);
template void rms_norm_backward(Stream, __nv_bfloat16*, __nv_bfloat16*, float*, const __nv_bfloat16*,
                                const __nv_bfloat16*, const float*, const __nv_bfloat16*, int64_t, int64_t, int);

}  // namespace tenfold::kernels
