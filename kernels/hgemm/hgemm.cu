#include "hgemm.h"

#include "hgemm.cuh"
#include "hgemm_pipeline.cuh"

#ifdef __CUDACC__
#include "kernels/rungs_here.h"
#endif
#if defined(TENFOLD_HOPPER) || !defined(__CUDACC__)
#include "hgemm_sm90.h"
#endif

#include <algorithm>
#include <stdexcept>
#include <string>

namespace tenfold::kernels {

namespace {

/// The rung that kHgemmFastest means here.
template <class T>
int fastest_rung() {
#ifdef __CUDACC__
  return std::min(hgemm_rungs_here<T>(), kHgemmProvenRungs) - 1;
#else
  return kHgemmRungs - 1;
#endif
}

/// Throws std::runtime_error, one line, where the rung cannot run.
template <class T>
void require_gpu_of([[maybe_unused]] int rung) {
#ifdef __CUDACC__
  if (rung >= hgemm_rungs_here<T>())
    throw std::runtime_error("hgemm: rung " + std::to_string(rung) + ": " + reason_not_here());
#endif
}

}  // namespace

#ifdef __CUDACC__  // the microscope's library, which a program may link as well, has none of them
bool hgemm_hopper_built() {
#ifdef TENFOLD_HOPPER
  return true;
#else
  return false;
#endif
}
#endif

template <class T, class AnyStream>
void hgemm(AnyStream stream, T* c, const T* a, const T* b, int64_t m, int64_t n, int64_t k, int rung) {
  constexpr int64_t kLargest = int64_t{1} << 30;  // an index plus a tile still fits in an int
  const auto check_size = [](const char* name, int64_t size) {
    if (size < 1 || size > kLargest)
      throw std::invalid_argument(std::string("hgemm: ") + name + " = " + std::to_string(size) +
                                  " is not in 1 .. 2^30");
  };
  check_size("m", m);
  check_size("n", n);
  check_size("k", k);
  if (rung < kHgemmFastest || rung >= kHgemmAllRungs) {
    throw std::invalid_argument("hgemm: rung " + std::to_string(rung) + " is not in 0 .. " +
                                std::to_string(kHgemmAllRungs - 1));
  }
  if (rung == kHgemmFastest) rung = fastest_rung<T>();
  require_gpu_of<T>(rung);

  const auto start = [&](int rows, int columns, int stages, auto* kernel) {
    const int64_t tiles = (m + rows - 1) / rows * ((n + columns - 1) / columns);
    if (tiles > 0x7fffffff) throw std::invalid_argument("hgemm: C has more tiles than a grid has blocks");
    const size_t shared_bytes = static_cast<size_t>(stages * hgemm_stage(rows, columns)) * sizeof(T);
    launch(stream, dim3(static_cast<unsigned>(tiles)), dim3(256), shared_bytes, kernel, c, a, b, m, n, k);
  };
  const bool vectors = packets_fit<T>(k, {a}) && packets_fit<T>(n, {b, c});
#if defined(TENFOLD_HOPPER) || !defined(__CUDACC__)
  if (rung >= kHgemmRungs && vectors) return hgemm_hopper(stream, c, a, b, m, n, k, rung);
#endif
  switch (rung) {
    case 0:
      return start(128, 128, 0, vectors ? hgemm_cuda_cores<T, true> : hgemm_cuda_cores<T, false>);
    case 1:
      return start(128, 128, 1, vectors ? hgemm_mma<T, true> : hgemm_mma<T, false>);
    case 2:
      return start(128, 128, 1, vectors ? hgemm_ldmatrix<T, true> : hgemm_ldmatrix<T, false>);
    case 3:
      return start(128, 128, kHgemmStages, vectors ? hgemm_cp_async<T, true> : hgemm_cp_async<T, false>);
    default:
      return start(128, 256, kHgemmStages, vectors ? hgemm_large_tile<T, true> : hgemm_large_tile<T, false>);
  }
}

template void hgemm(Stream, __half*, const __half*, const __half*, int64_t, int64_t, int64_t, int);
template void hgemm(Stream, __nv_bfloat16*, const __nv_bfloat16*, const __nv_bfloat16*, int64_t, int64_t, int64_t, int);

}  // namespace tenfold::kernels
