#pragma once
// The rungs that run where the test does: under the microscope all, on a GPU what it has.

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/decode_attention/decode_attention.h"
#include "kernels/flash_attention/flash_attention.h"
#include "kernels/grouped_gemm/grouped_gemm.h"
#include "kernels/hgemm/hgemm.h"
#include "kernels/scaled_gemm/scaled_gemm.h"
#include "kernels/split_k/split_k.h"

#ifdef TENFOLD_TEST_ON_GPU
#include "kernels/rungs_here.h"
#endif

namespace tenfold::test {

#ifdef TENFOLD_TEST_ON_GPU

template <class T>
int hgemm_rungs() {
  return std::min(kernels::hgemm_rungs_here<T>(), kernels::kHgemmRungs);
}
template <class T>
int attention_rungs() {
  return std::min(kernels::flash_attention_rungs_here<T>(), kernels::kFlashAttentionRungs<T>);
}
/// With those that only Hopper has, which on a GPU have a test of their own.
template <class T>
int attention_rungs_with_hopper() {
  return kernels::flash_attention_rungs_here<T>();
}
template <class T>
int attention_backward_rungs() {
  return kernels::flash_attention_backward_rungs_here<T>();
}
inline int decode_rungs() { return kernels::decode_attention_rungs_here(); }
inline int split_k_rungs() { return kernels::split_k_rungs_here(); }
inline int grouped_gemm_rungs() { return kernels::grouped_gemm_rungs_here(); }
template <class T>
int scaled_gemm_rungs() {
  return kernels::scaled_gemm_rungs_here<T>();
}

/// Last in a test that ran the first `here` of `all` rungs: it counts as skipped, with the reason, unless that is all.
inline void skip_missing_rungs(int here, int all) {
  if (here < all) GTEST_SKIP() << "from rung " << here << " on: " << kernels::reason_not_here();
}

#else

template <class T>
int hgemm_rungs() {
  return kernels::kHgemmAllRungs;
}
template <class T>
int attention_rungs() {
  return kernels::kFlashAttentionAllRungs<T>;
}
template <class T>
int attention_rungs_with_hopper() {
  return kernels::kFlashAttentionAllRungs<T>;
}
template <class T>
int attention_backward_rungs() {
  return kernels::kFlashAttentionBackwardRungs<T>;
}
inline int decode_rungs() { return kernels::kDecodeAttentionRungs; }
inline int split_k_rungs() { return kernels::kSplitKRungs; }
inline int grouped_gemm_rungs() { return kernels::kGroupedGemmRungs; }
template <class T>
int scaled_gemm_rungs() {
  return kernels::kScaledGemmAllRungs<T>;
}
inline void skip_missing_rungs(int, int) {}

#endif

}  // namespace tenfold::test
