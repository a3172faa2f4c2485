#include "softmax.h"

#include "softmax.cuh"

namespace tenfold::kernels {
namespace {

constexpr unsigned kThreads = 128;  // rungs 0 to 2

template <class T, int N, class Stream>
void softmax_block_per_row(Stream stream, T* out, const T* in, int64_t rows, int64_t columns, bool hold) {
  const unsigned threads = threads_for_row(columns);
  if (hold && columns <= static_cast<int64_t>(threads) * kSoftmaxHeld) {
    const dim3 block = block_for_rows(columns);
    launch(stream, blocks_for(rows, block.y), block, 0,
           block.y > 1 ? softmax_held<T, N, true> : softmax_held<T, N, false>, out, in, rows, columns);
  } else {
    launch(stream, static_cast<unsigned>(rows), threads, 0, softmax_streamed<T, N>, out, in, columns);
  }
}

template <class T, int N, class Stream>
void softmax_gradient_per_row(Stream stream, T* grad_in, const T* grad_out, const T* out, int64_t rows,
                              int64_t columns) {
  const dim3 block = block_for_rows(columns);
  launch(stream, blocks_for(rows, block.y), block, 0,
         block.y > 1 ? softmax_gradient<T, N, true> : softmax_gradient<T, N, false>, grad_in, grad_out, out, rows,
         columns);
}

}  // namespace

template <class T, class Stream>
void softmax(Stream stream, T* out, const T* in, int64_t rows, int64_t columns, int rung) {
  check_rows("softmax", rows, columns);
  if (rung < 0 || rung >= kSoftmaxRungs) throw no_such_rung("softmax", rung, kSoftmaxRungs);
  if (rung == 0)
    launch(stream, blocks_for(rows, kThreads), kThreads, 0, softmax_thread_per_row<T>, out, in, rows, columns);
  if (rung == 1)
    launch(stream, blocks_for(rows, kThreads / 32), kThreads, 0, softmax_warp_per_row<T>, out, in, rows, columns);
  if (rung == 2)
    launch(stream, blocks_for(rows, kThreads / 32), kThreads, 0, softmax_online<T>, out, in, rows, columns);
  if (rung >= 3) {
    if (packets_fit<T>(columns, {out, in})) {
      softmax_block_per_row<T, kPacket<T>>(stream, out, in, rows, columns, rung == 4);
    } else {
      softmax_block_per_row<T, 1>(stream, out, in, rows, columns, rung == 4);
    }
  }
}

template <class T, class Stream>
void softmax_backward(Stream stream, T* grad_in, const T* grad_out, const T* out, int64_t rows, int64_t columns) {
  check_rows("softmax_backward", rows, columns);
  if (packets_fit<T>(columns, {grad_in, grad_out, out})) {
    softmax_gradient_per_row<T, kPacket<T>>(stream, grad_in, grad_out, out, rows, columns);
  } else {
    softmax_gradient_per_row<T, 1>(stream, grad_in, grad_out, out, rows, columns);
  }
}

template void softmax(Stream, float*, const float*, int64_t, int64_t, int);
template void softmax(Stream, __half*, const __half*, int64_t, int64_t, int);
template void softmax(Stream, __nv_bfloat16*, const __nv_bfloat16*, int64_t, int64_t, int);
template void softmax_backward(Stream, float*, const float*, const float*, int64_t, int64_t);
template void softmax_backward(Stream, __half*, const __half*, const __half*, int64_t, int64_t);
template void softmax_backward(Stream, __nv_bfloat16*, const __nv_bfloat16*, const __nv_bfloat16*, int64_t, int64_t);

}  // namespace tenfold::kernels
