#pragma once
// What every kernel file includes, and all that it needs to know about who compiles it: nvcc for a GPU, or g++ for the
// microscope, which runs the same source on the CPU (common/microscope).

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <stdexcept>
#include <string>

namespace tenfold::kernels {

using Stream = cudaStream_t;

inline void check_launch(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(std::string("kernel launch failed: ") + cudaGetErrorString(error));
}

/// Starts `kernel` on the stream with `shared_bytes` of dynamic shared memory; throws std::runtime_error when CUDA
/// refuses.
template <class... Parameters, class... Arguments>
void launch(Stream stream, dim3 grid, dim3 block, size_t shared_bytes, void (*kernel)(Parameters...),
            Arguments... arguments) {
  // A block that needs more than 48 KiB must ask, its static memory counted: none that asks here has 16 KiB of that.
  if (shared_bytes > 32 * 1024) {
    check_launch(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)));
  }
  kernel<<<grid, block, shared_bytes, stream>>>(static_cast<Parameters>(arguments)...);
  check_launch(cudaGetLastError());
}

/// The block's dynamic shared memory. A function, because C++ allows one type only for an `extern __shared__` name.
template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char tenfold_dynamic_shared[];
  return reinterpret_cast<T*>(tenfold_dynamic_shared);
}

}  // namespace tenfold::kernels

#else
#include "common/microscope/built_ins.h"
#endif
