#include "strided_copy.h"

#include <limits>
#include <stdexcept>
#include <string>

#include "strided_copy.cuh"

namespace tenfold::kernels {

template <class Stream>
void strided_copy(Stream stream, float* out, const float* in, int64_t count, int64_t stride, int64_t offset) {
  constexpr int64_t kThreads = 256;
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  if (count < 1 || stride < 1 || offset < 0 || blocks > std::numeric_limits<int32_t>::max()) {
    throw std::invalid_argument("strided_copy: cannot copy " + std::to_string(count) + " floats with stride " +
                                std::to_string(stride) + " from offset " + std::to_string(offset));
  }
  launch(stream, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, strided_copy_kernel, out, in, count, stride,
         offset);
}

template void strided_copy(Stream, float*, const float*, int64_t, int64_t, int64_t);

}  // namespace tenfold::kernels
