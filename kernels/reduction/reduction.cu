// The launcher of the reduction ladder: checks the arguments and picks the grid.
#include "reduction.h"

#include <limits>
#include <stdexcept>
#include <string>

#include "reduction.cuh"

namespace tenfold::kernels {

template <class Stream>
void reduce_sum(Stream stream, float* out, const float* in, int64_t n, ReductionWorkspace* workspace, int rung) {
  if (rung < 0 || rung >= kReductionRungs) {
    throw std::invalid_argument("reduce_sum: there is no rung " + std::to_string(rung) + ", only 0 to " +
                                std::to_string(kReductionRungs - 1));
  }
  if (n < 1) throw std::invalid_argument("reduce_sum: n must be at least 1, not " + std::to_string(n));
  if (n > static_cast<int64_t>(std::numeric_limits<int32_t>::max()) * kReductionThreads) {
    throw std::invalid_argument("reduce_sum: " + std::to_string(n) + " elements are more than one grid covers");
  }
  if (rung == 5 && workspace == nullptr) throw std::invalid_argument("reduce_sum: rung 5 needs a workspace");

  const dim3 grid(static_cast<unsigned>(reduction_blocks(n, rung))), block(kReductionThreads);
  if (rung == 5) return launch(stream, grid, block, 0, reduction_last_block, out, in, n, workspace);
  constexpr void (*kKernels[])(float*, const float*, int64_t) = {
      reduction_atomic, reduction_interleaved, reduction_sequential, reduction_grid_stride, reduction_shuffle};
  launch(stream, dim3(1), dim3(1), 0, reduction_zero, out);
  launch(stream, grid, block, 0, kKernels[rung], out, in, n);
}

template void reduce_sum(Stream, float*, const float*, int64_t, ReductionWorkspace*, int);

}  // namespace tenfold::kernels
