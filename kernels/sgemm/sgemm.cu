#include "sgemm.h"

#include "sgemm.cuh"

#include <stdexcept>
#include <string>

namespace tenfold::kernels {

template <class AnyStream>
void sgemm(AnyStream stream, float* c, const float* a, const float* b, int64_t m, int64_t n, int64_t k, float alpha,
           float beta, int rung) {
  constexpr int64_t kLargest = int64_t{1} << 30;  // an index plus a tile still fits in an int
  const auto check_size = [](const char* name, int64_t size) {
    if (size < 1 || size > kLargest)
      throw std::invalid_argument(std::string("sgemm: ") + name + " = " + std::to_string(size) +
                                  " is not in 1 .. 2^30");
  };
  check_size("m", m);
  check_size("n", n);
  check_size("k", k);

  const int64_t depth = alpha == 0 ? 0 : k;  // without a depth no rung touches A or B
  const auto start = [&](int tile, dim3 threads, auto* kernel) {
    const int64_t tiles = (m + tile - 1) / tile * ((n + tile - 1) / tile);
    if (tiles > 0x7fffffff) throw std::invalid_argument("sgemm: C has more tiles than a grid has blocks");
    launch(stream, dim3(static_cast<unsigned>(tiles)), threads, 0, kernel, c, a, b, m, n, depth, alpha, beta);
  };
  const auto aligned = [](const float* pointer) { return reinterpret_cast<uintptr_t>(pointer) % sizeof(float4) == 0; };
  const bool vectors = k % 4 == 0 && n % 4 == 0 && aligned(a) && aligned(b) && aligned(c);

  switch (rung) {
    case 0:
      return start(32, dim3(32, 32), sgemm_naive);
    case 1:
      return start(32, dim3(32, 32), sgemm_coalesced);
    case 2:
      return start(32, dim3(32, 32), sgemm_shared);
    case 3:
      return start(64, dim3(512), sgemm_registers_1d);
    case 4:
      return start(128, dim3(256), sgemm_registers_2d);
    case 5:
      return start(128, dim3(256), vectors ? sgemm_vector<true> : sgemm_vector<false>);
    case 6:
      return start(128, dim3(256), vectors ? sgemm_double_buffer<true> : sgemm_double_buffer<false>);
    case 7:
      return start(128, dim3(256), vectors ? sgemm_warp_tile<true> : sgemm_warp_tile<false>);
    default:
      throw std::invalid_argument("sgemm: rung " + std::to_string(rung) + " is not in 0 .. " +
                                  std::to_string(kSgemmRungs - 1));
  }
}

template void sgemm(Stream, float*, const float*, const float*, int64_t, int64_t, int64_t, float, float, int);

}  // namespace tenfold::kernels
