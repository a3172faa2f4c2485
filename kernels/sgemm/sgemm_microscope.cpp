// ./tenfold kernel sgemm: the SGEMM ladder under the microscope.
#include "common/kernel_page/kernel_page.h"
#include "sgemm_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

namespace {

namespace simt = tenfold::simt;

/// Largest error of c = a * b as a share of the float32 bound k * 2^-24 * sum(abs(a) * abs(b)); a NaN is the worst of
/// all.
double worst_error(const float* c, const float* a, const float* b, int64_t m, int64_t n, int64_t k) {
  double worst = 0;
  std::vector<double> sum(static_cast<size_t>(n)), size(static_cast<size_t>(n));
  for (int64_t row = 0; row < m; ++row) {
    std::fill(sum.begin(), sum.end(), 0.0);
    std::fill(size.begin(), size.end(), 0.0);
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t column = 0; column < n; ++column) {
        const double product = static_cast<double>(a[row * k + i]) * static_cast<double>(b[i * n + column]);
        sum[static_cast<size_t>(column)] += product;
        size[static_cast<size_t>(column)] += std::abs(product);
      }
    }
    for (int64_t column = 0; column < n; ++column) {
      const double bound = static_cast<double>(k) * 0x1p-24 * size[static_cast<size_t>(column)];
      const double error =
          std::abs(static_cast<double>(c[row * n + column]) - sum[static_cast<size_t>(column)]) / bound;
      if (!std::isfinite(error)) return std::numeric_limits<double>::max();
      worst = std::max(worst, error);
    }
  }
  return worst;
}

simt::PageRun run(simt::Device& device, const simt::Shape& shape, int rung) {
  const int64_t m = shape.at("m"), n = shape.at("n"), k = shape.at("k");
  constexpr int64_t kLargest = 4096;  // minutes under the microscope, and far from any overflow
  if (std::max({m, n, k}) > kLargest)
    throw std::invalid_argument("sgemm: m, n and k must be at most " + std::to_string(kLargest));
  const tenfold::kernels::SgemmBuffers buffers{&device, m, n, k};
  simt::fill_normal(1, {buffers.a, buffers.b});
  buffers.launch(rung);
  return {.worst_error = worst_error(buffers.c.data(), buffers.a.data(), buffers.b.data(), m, n, k),
          .work = tenfold::kernels::sgemm_pass().work(shape, sizeof(float))};
}

}  // namespace

int main(int argc, char** argv) { return tenfold::simt::show(argc, argv, tenfold::kernels::sgemm_case(), run); }
