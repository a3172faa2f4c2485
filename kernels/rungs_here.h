#pragma once
// Which rungs the current GPU can run. Tests and benches ask before they launch, and name what they leave out.

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <string>
#include <type_traits>

#include "kernels/decode_attention/decode_attention.h"
#include "kernels/flash_attention/flash_attention.h"
#include "kernels/grouped_gemm/grouped_gemm.h"
#include "kernels/hgemm/hgemm.h"
#include "kernels/scaled_gemm/scaled_gemm.h"
#include "kernels/split_k/split_k.h"

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

/// Rungs 0 to this - 1 of hgemm run on the current GPU: all on Hopper where its own were built, all but those from 8.0
/// on; on Turing those of CUDA cores and, for __half, the two that need nothing newer.
template <class T>
int hgemm_rungs_here() {
  const int capability = compute_capability();
  if (capability == 90 && hgemm_hopper_built()) return kHgemmAllRungs;
  if (capability >= 80) return kHgemmRungs;
  return capability == 75 && std::is_same_v<T, __half> ? 3 : 1;
}

/// The same for attention: its last rungs for 16 bits are on tensor cores, from 8.0 on, and then Hopper's own, which
/// are built where hgemm's are.
template <class T>
int flash_attention_rungs_here() {
  if (compute_capability() == 90 && hgemm_hopper_built()) return kFlashAttentionAllRungs<T>;
  return compute_capability() < 80 ? kFlashAttentionRungs<float> : kFlashAttentionRungs<T>;
}
template <class T>
int flash_attention_backward_rungs_here() {
  return kFlashAttentionBackwardRungs<T> - (sizeof(T) == 2 && compute_capability() < 80 ? 1 : 0);
}

/// The same for a step of decoding: its last rung is on tensor cores.
inline int decode_attention_rungs_here() {
  return compute_capability() < 80 ? kDecodeTensorCoreRung : kDecodeAttentionRungs;
}

/// The same for split_k: none before 8.0.
inline int split_k_rungs_here() { return compute_capability() < 80 ? 0 : kSplitKRungs; }

/// The same for grouped_gemm.
inline int grouped_gemm_rungs_here() { return compute_capability() < 80 ? 0 : kGroupedGemmRungs; }

/// The same for scaled_gemm: the last of its rungs for every GPU has cp.async. Hopper's own, for e4m3, are built where
/// hgemm's are.
template <class T>
int scaled_gemm_rungs_here() {
  if (compute_capability() == 90 && hgemm_hopper_built()) return kScaledGemmAllRungs<T>;
  return kScaledGemmRungs - (compute_capability() < 80 ? 1 : 0);
}

/// Why a rung beyond those is left out.
inline std::string reason_not_here() {
  const int capability = compute_capability();
  if (capability == 0) return "it needs a GPU";
  if (capability == 90 && !hgemm_hopper_built()) return "it was not built: TENFOLD_CUDA_ARCHS had no 9.0";
  return "it does not run on compute capability " + std::to_string(capability / 10) + "." +
         std::to_string(capability % 10);
}

}  // namespace tenfold::kernels
