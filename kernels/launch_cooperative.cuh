#pragma once
// How kernels are started whose blocks wait for each other.

#include "kernels/launch.cuh"

namespace tenfold::kernels {

#ifdef __CUDACC__

/// As launch(), for blocks that wait for each other: all of them run at the same time, or, where the GPU does not hold
/// so many, none does and std::runtime_error says so.
template <class... Parameters, class... Arguments>
void launch_cooperative(Stream stream, dim3 grid, dim3 block, size_t shared_bytes, void (*kernel)(Parameters...),
                        Arguments... arguments) {
  check_launch(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative, attribute.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid, config.blockDim = block, config.dynamicSmemBytes = shared_bytes, config.stream = stream;
  config.attrs = &attribute, config.numAttrs = 1;
  check_launch(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

#else

/// Blocks run one after the other all the same: one that waits for a later one never ends.
template <class... Parameters, class... Arguments>
void launch_cooperative(Stream device, dim3 grid, dim3 block, size_t shared_bytes, void (*kernel)(Parameters...),
                        Arguments... arguments) {
  launch(device, grid, block, shared_bytes, kernel, arguments...);
}

#endif

}  // namespace tenfold::kernels
