#pragma once
// How much shared memory a block may have: for launchers that keep as much there as fits.

#include "launch.cuh"

#include <cstdint>

namespace tenfold::kernels {

/// The most dynamic shared memory that a block may have on the current device; under the microscope Hopper's.
static inline int64_t most_shared_bytes() {  // static: the microscope has another body
#ifdef __CUDACC__
  int device = 0, bytes = 0;
  check_launch(cudaGetDevice(&device));
  check_launch(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return bytes;
#else
  return int64_t{227} * 1024;
#endif
}

}  // namespace tenfold::kernels
