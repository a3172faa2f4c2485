#include "softmax.h"

#include "softmax.cuh"

namespace tenfold::kernels {
namespace {

constexpr unsigned kThreads = 128;  // rungs 0 to 2

template <class T, int N, class Stream>
void softmax_block_per_row(Stream stream, T* out, const T* in, int64_t rows, int64_t columns, bool hold) {
  const unsigned threads = threads_for_row(columns);
  const bool held = hold && columns <= static_cast<int64_t>(threads) * kSoftmaxHeld;
  launch(stream, static_cast<unsigned>(rows), threads, 0, held ? softmax_held<T, N> : softmax_streamed<T, N>, out, in,
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
  const auto kernel =
      packets_fit<T>(columns, {grad_in, grad_out, out}) ? softmax_gradient<T, kPacket<T>> : softmax_gradient<T, 1>;
  launch(stream, static_cast<unsigned>(rows), threads_for_row(columns), 0, kernel, grad_in, grad_out, out, columns);
}

template void softmax(Stream, float*, const float*, int64_t, int64_t, int);
template void softmax(Stream, __half*, const __half*, int64_t, int64_t, int);
template void softmax(Stream, __nv_bfloat16*, const __nv_bfloat16*, int64_t, int64_t, int);
template void softmax_backward(Stream, float*, const float*, const float*, int64_t, int64_t);
template void softmax_backward(Stream, __half*, const __half*, const __half*, int64_t, int64_t);
template void softmax_backward(Stream, __nv_bfloat16*, const __nv_bfloat16*, const __nv_bfloat16*, int64_t, int64_t);

}  // namespace tenfold::kernels
