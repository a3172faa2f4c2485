#include "cross_entropy.h"

#include "cross_entropy.cuh"
#include "kernels/shared_memory.cuh"

namespace tenfold::kernels {
namespace {

constexpr unsigned kThreads = 128;  // rung 0

/// Threads of the one block that counts the targets and adds the losses.
unsigned threads_for_sums(int64_t rows) { return rows < 1024 ? 32 * blocks_for(rows, 32) : 1024; }

}  // namespace

template <class T, class Stream>
void cross_entropy(Stream stream, T* logits, float* mean, float* losses, int64_t* counted, const int64_t* targets,
                   int64_t rows, int64_t classes, int64_t ignore_index, int rung, float gradient_scale) {
  check_rows("cross_entropy", rows, classes);
  if (rung < 0 || rung >= kCrossEntropyRungs) throw no_such_rung("cross_entropy", rung, kCrossEntropyRungs);
  launch(stream, 1U, threads_for_sums(rows), 0, count_targets, counted, targets, rows, ignore_index);
  if (rung == 0) {
    const unsigned blocks = blocks_for(rows, kThreads);
    launch(stream, blocks, kThreads, 0, cross_entropy_forward<T>, losses, logits, targets, counted, rows, classes,
           ignore_index, gradient_scale);
    launch(stream, blocks, kThreads, 0, cross_entropy_backward<T>, logits, targets, counted, rows, classes,
           ignore_index, gradient_scale);
  } else {
    const int64_t row_bytes = classes * static_cast<int64_t>(sizeof(T));
    const int64_t room = (most_shared_bytes() - kCrossEntropyOwnShared) / 16 * 16;
    const int64_t kept_bytes = row_bytes < room ? row_bytes : room;
    if (rung == 4 && 2 * kept_bytes >= row_bytes) {
      // Where an SM has room for one block only, as many warps as two would have.
      const unsigned threads = 2 * kept_bytes > room ? 2 * threads_for_row(classes) : threads_for_row(classes);
      const auto kernel =
          kept_bytes == row_bytes ? cross_entropy_held<T, kPacket<T>, true> : cross_entropy_held<T, kPacket<T>, false>;
      launch(stream, static_cast<unsigned>(rows), threads, static_cast<size_t>(kept_bytes), kernel, logits, losses,
             targets, counted, classes, ignore_index, gradient_scale, kept_bytes / 16);
    } else {
      const auto kernel = rung == 1   ? cross_entropy_one_kernel<T>
                          : rung == 2 ? cross_entropy_online<T>
                                      : cross_entropy_vectorised<T, kPacket<T>>;
      launch(stream, static_cast<unsigned>(rows), threads_for_row(classes), 0, kernel, logits, losses, targets, counted,
             classes, ignore_index, gradient_scale);
    }
  }
  launch(stream, 1U, threads_for_sums(rows), 0, mean_loss, mean, losses, counted, rows);
}

template void cross_entropy(Stream, float*, float*, float*, int64_t*, const int64_t*, int64_t, int64_t, int64_t, int,
                            float);
template void cross_entropy(Stream, __half*, float*, float*, int64_t*, const int64_t*, int64_t, int64_t, int64_t, int,
                            float);
template void cross_entropy(Stream, __nv_bfloat16*, float*, float*, int64_t*, const int64_t*, int64_t, int64_t, int64_t,
                            int, float);

}  // namespace tenfold::kernels
