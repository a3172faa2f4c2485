#pragma once
// Which rungs the current GPU can run. Tests and benches ask before they launch, and name what they leave out.

#include <cuda_runtime_api.h>

#include <string>

#include "kernels/flash_attention/flash_attention.h"
#include "kernels/hgemm/hgemm.h"

namespace tenfold::kernels {

/// 10 * major + minor of the current GPU: 75 for a T4, 90 for an H100; 0 without a GPU.
inline int compute_capability() {
  int device = 0, major = 0, minor = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess) {
    return 0;
  }
  return 10 * major + minor;
}

/// Rungs 0 to this - 1 of hgemm run on the current GPU: all on Hopper, all but wgmma's from 8.0 on, else CUDA cores'.
inline int hgemm_rungs_here() {
  static_assert(kHgemmHopperRung == kHgemmRungs, "the last one");
  const int capability = compute_capability();
  if (capability < 80) return 1;
  return capability == 90 ? kHgemmRungs + 1 : kHgemmRungs;
}

/// The same for attention: its last rung for T is on tensor cores, from 8.0 on, where T has 16 bits.
template <class T>
int flash_attention_rungs_here() {
  return kFlashAttentionRungs<T> - (sizeof(T) == 2 && compute_capability() < 80 ? 1 : 0);
}
template <class T>
int flash_attention_backward_rungs_here() {
  return kFlashAttentionBackwardRungs<T> - (sizeof(T) == 2 && compute_capability() < 80 ? 1 : 0);
}

/// Why a rung beyond those is left out.
inline std::string reason_not_here() {
  const int capability = compute_capability();
  if (capability == 0) return "it needs a GPU";
  return "it does not run on compute capability " + std::to_string(capability / 10) + "." +
         std::to_string(capability % 10);
}

}  // namespace tenfold::kernels
