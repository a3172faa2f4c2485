// ./tenfold kernel sgemm: the SGEMM ladder under the microscope.
#include "common/kernel_page/kernel_page.h"
#include "sgemm.h"

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
  const auto a = device.buffer<float>("a", m * k), b = device.buffer<float>("b", k * n),
             c = device.buffer<float>("c", m * n);
  simt::fill_normal(1, {a, b});
  tenfold::kernels::sgemm<simt::Stream>(&device, c.data(), a.data(), b.data(), m, n, k, 1, 0, rung);
  return {.worst_error = worst_error(c.data(), a.data(), b.data(), m, n, k),
          .flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
          .least_bytes = 4 * (m * k + k * n + m * n)};
}

}  // namespace

int main(int argc, char** argv) {
  return simt::show(
      argc, argv,
      {.name = "sgemm",
       .title = "Matrix product in fp32 on CUDA cores",
       .shape = {{"m", 128}, {"n", 128}, {"k", 64}},
       .rungs = {{"naive", "One thread computes one element; the lanes of a warp walk down the rows of C."},
                 {"coalesced", "The lanes of a warp walk along the columns, so that B and C are coalesced."},
                 {"shared tile", "A block copies 32 x 32 tiles to shared memory and uses each value 32 times."},
                 {"1-D registers", "A thread computes 8 results of a column and keeps one value of B for all of them."},
                 {"2-D registers", "A thread computes 8 x 8 results: 16 shared loads for 64 multiply-adds."},
                 {"vector loads", "Global and shared memory are read 16 bytes at a time, A transposed on the way."},
                 {"double buffer", "The next tile is loaded while the block multiplies this one; one barrier a step."},
                 {"warp tile",
                  "A warp computes 64 x 32 results, which reads fewer words of shared memory than 16 x 128."}},
       .run = run});
}
