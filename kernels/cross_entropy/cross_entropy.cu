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
    const int64_t held_bytes = classes * static_cast<int64_t>(sizeof(T));
    if (rung == 4 && held_bytes + kCrossEntropyOwnShared <= most_shared_bytes()) {
      launch(stream, static_cast<unsigned>(rows), threads_for_row(classes), static_cast<size_t>(held_bytes),
             cross_entropy_held<T, kPacket<T>>, logits, losses, targets, counted, classes, ignore_index,
             gradient_scale);
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
