// ./tenfold kernel scaled_gemm: the ladder of 8-bit matrix products under the microscope.
#include "common/kernel_page/kernel_page.h"
#include "scaled_gemm_case.h"

#include <cuda_fp8.h>

#include <random>
#include <stdexcept>

#include "scaled_gemm_reference.h"

namespace {

namespace kernels = tenfold::kernels;
namespace simt = tenfold::simt;

std::vector<float> normal_values(int64_t count, uint32_t seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  std::ranges::generate(values, [&] { return normal(bits); });
  return values;
}

simt::PageRun run(simt::Device& device, const simt::Shape& shape, int rung) {
  using T = __nv_fp8_e4m3;
  constexpr auto kScales = kernels::ScaledGemmScales::blocks;
  const int64_t m = shape.at("m"), n = shape.at("n"), k = shape.at("k");
  constexpr int64_t kLargest = 4096;  // minutes under the microscope, and far from any overflow
  if (std::max({m, n, k}) > kLargest)
    throw std::invalid_argument("scaled_gemm: m, n and k must be at most " + std::to_string(kLargest));
  const auto a = kernels::quantised_a<T>(normal_values(m * k, 1), m, k, kScales);
  const auto b = kernels::quantised_b<T>(normal_values(n * k, 2), n, k, kScales);
  const kernels::ScaledGemmBuffers<T> buffers{&device, m, n, k, kScales};
  std::ranges::copy(a.codes, buffers.a.begin());
  std::ranges::copy(b.codes, buffers.b.begin());
  std::ranges::copy(a.scales, buffers.a_scales.begin());
  std::ranges::copy(b.scales, buffers.b_scales.begin());

  buffers.launch(rung);

  const auto expected = kernels::scaled_gemm_reference(kernels::dequantised_a(a, m, k, kScales),
                                                       kernels::dequantised_b(b, n, k, kScales), m, n, k);
  return {.worst_error = kernels::worst_error(buffers.c, expected),
          .work = kernels::scaled_gemm_pass<T>().work(shape, sizeof(T))};
}

}  // namespace

int main(int argc, char** argv) { return tenfold::simt::show(argc, argv, tenfold::kernels::scaled_gemm_case(), run); }
