#include "scaled_gemm.h"

#include "scaled_gemm.cuh"

#ifdef __CUDACC__
#include "kernels/rungs_here.h"
#endif
#if defined(TENFOLD_HOPPER) || !defined(__CUDACC__)
#include "scaled_gemm_sm90.h"
#endif

#include <algorithm>
#include <stdexcept>
#include <string>

namespace tenfold::kernels {
namespace {

constexpr const char* kName = "scaled_gemm";

template <class T>
void check(int64_t m, int64_t n, int64_t k, ScaledGemmScales scales, int rung) {
  constexpr bool kInt8 = std::is_same_v<T, int8_t>;
  constexpr int64_t kLargest = int64_t{1} << 30;  // an index plus a tile still fits in an int
  const auto refuse = [](const std::string& reason) {
    throw std::invalid_argument(std::string(kName) + ": " + reason);
  };
  const auto check_size = [&](const char* name, int64_t size) {
    if (size < 1 || size > kLargest) refuse(std::string(name) + " = " + std::to_string(size) + " is not in 1 .. 2^30");
  };
  check_size("m", m);
  check_size("n", n);
  check_size("k", k);
  constexpr int64_t kDeepest = 0x7fffffff / (128 * 128);  // products of -128 and -128
  if (kInt8 && scales == ScaledGemmScales::tensor && k > kDeepest)
    refuse("k = " + std::to_string(k) + " of int8 with one scale; a sum in int32 has room for " +
           std::to_string(kDeepest));
  if (rung < kScaledGemmFastest || rung >= kScaledGemmAllRungs<T>)
    throw no_such_rung(kName, rung, kScaledGemmAllRungs<T>);
}

/// The rung that is meant; throws std::runtime_error, one line, where it cannot run.
template <class T>
int rung_here(int rung) {
#ifdef __CUDACC__
  const int rungs = scaled_gemm_rungs_here<T>();
  if (rung >= rungs)
    throw std::runtime_error(std::string(kName) + ": rung " + std::to_string(rung) + ": " + reason_not_here());
  return rung == kScaledGemmFastest ? std::min(rungs, kScaledGemmRungs) - 1 : rung;
#else
  return rung == kScaledGemmFastest ? kScaledGemmRungs - 1 : rung;
#endif
}

template <ScaledGemmScales kScales, bool kVectors, class T, class AnyStream>
void launch_rung(AnyStream stream, float* c, const ScaledGemmInput<T>& in, int rung) {
  const auto start = [&](int rows, int columns, int shared_bytes, auto* kernel) {
    const int64_t tiles = (int64_t{in.m} + rows - 1) / rows * ((int64_t{in.n} + columns - 1) / columns);
    if (tiles > 0x7fffffff)
      throw std::invalid_argument(std::string(kName) + ": C has more tiles than a grid has blocks");
    launch(stream, dim3(static_cast<unsigned>(tiles)), dim3(kScaledGemmThreads), static_cast<size_t>(shared_bytes),
           kernel, c, in);
  };
  const auto start_mma = [&](int stages, auto* kernel) {
    start(kScaledGemmTileRows, kScaledGemmTileColumns, stages * kScaledGemmStage, kernel);
  };
  constexpr int kPackedBytes = 2 * kPackedTile * kScaledGemmRow<ScaledGemmLayout::padded>;
  switch (rung) {
    case 0:
      return start(kDequantiseRows, kDequantiseColumns, 0, scaled_gemm_dequantise<T, kScales>);
    case 1:
      return start(kPackedTile, kPackedTile, kPackedBytes, scaled_gemm_packed_dot<T, kScales, kVectors>);
    case 2:
      return start_mma(1, scaled_gemm_mma<T, kScales, kVectors>);
    case 3:
      return start_mma(1, scaled_gemm_ldmatrix<T, kScales, kVectors>);
    default:
      return start_mma(kScaledGemmStages, scaled_gemm_cp_async<T, kScales, kVectors>);
  }
}

}  // namespace

template <class T, class AnyStream>
void scaled_gemm(AnyStream stream, float* c, const T* a, const T* b, const float* a_scales, const float* b_scales,
                 int64_t m, int64_t n, int64_t k, ScaledGemmScales scales, int rung) {
  check<T>(m, n, k, scales, rung);
  rung = rung_here<T>(rung);
  const ScaledGemmInput<T> in{a, b, a_scales, b_scales, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k)};
  const bool vectors = packets_fit<T>(k, {a, b}) && n % 2 == 0 && reinterpret_cast<uintptr_t>(c) % 8 == 0;
#if defined(TENFOLD_HOPPER) || !defined(__CUDACC__)
  if constexpr (kScaledGemmAllRungs<T> > kScaledGemmRungs) {
    if (rung >= kScaledGemmRungs && vectors)
      return scaled_gemm_hopper(stream, c, a, b, a_scales, b_scales, m, n, k, scales, rung);
  }
#endif
  constexpr auto kTensor = ScaledGemmScales::tensor, kBlocks = ScaledGemmScales::blocks;
  if (scales == kTensor && vectors) return launch_rung<kTensor, true>(stream, c, in, rung);
  if (scales == kTensor) return launch_rung<kTensor, false>(stream, c, in, rung);
  if (vectors) return launch_rung<kBlocks, true>(stream, c, in, rung);
  launch_rung<kBlocks, false>(stream, c, in, rung);
}

template void scaled_gemm(Stream, float*, const int8_t*, const int8_t*, const float*, const float*, int64_t, int64_t,
                          int64_t, ScaledGemmScales, int);
template void scaled_gemm(Stream, float*, const __nv_fp8_e4m3*, const __nv_fp8_e4m3*, const float*, const float*,
                          int64_t, int64_t, int64_t, ScaledGemmScales, int);

}  // namespace tenfold::kernels
