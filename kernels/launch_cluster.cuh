#pragma once
// Starts a kernel whose blocks run in clusters. The microscope has its own.

#include "launch.cuh"

#ifdef __CUDACC__
namespace tenfold::kernels {

/// As launch(), in clusters of `cluster` blocks, neighbours along x, which run at the same time and reach each other's
/// shared memory: from compute capability 9.0 on. `cluster` is at most 8 and divides grid.x.
template <class... Parameters, class... Arguments>
void launch_cluster(Stream stream, dim3 grid, dim3 block, unsigned cluster, size_t shared_bytes,
                    void (*kernel)(Parameters...), Arguments... arguments) {
  check_launch(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shared_bytes)));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = cluster, attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid, config.blockDim = block, config.dynamicSmemBytes = shared_bytes, config.stream = stream;
  config.attrs = &attribute, config.numAttrs = 1;
  check_launch(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

}  // namespace tenfold::kernels

#endif
