#include "repeated_fma.h"

#include <limits>
#include <stdexcept>
#include <string>

#include "repeated_fma.cuh"

namespace tenfold::kernels {

template <class Stream>
void repeated_fma(Stream stream, float* out, const float* in, int64_t count, int64_t updates, float factor,
                  float summand) {
  constexpr int64_t kThreads = 256;
  if (count < 1 || updates < 1 || (count - 1) / kThreads >= std::numeric_limits<int32_t>::max()) {
    throw std::invalid_argument("repeated_fma: cannot update " + std::to_string(count) + " floats " +
                                std::to_string(updates) + " times");
  }
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  launch(stream, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, repeated_fma_kernel, out, in, count, updates,
         factor, summand);
}

template void repeated_fma(Stream, float*, const float*, int64_t, int64_t, float, float);

}  // namespace tenfold::kernels
