#pragma once
// What a product of 16-bit matrices should be, in float64, and how far from it rounding may lead.

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/expected.h"

namespace tenfold::kernels {

/// C (m, n) = A (m, k) * B (k, n), row-major; `rounding` is that of C's type. Products of two 16-bit values are exact
/// in float32. Their sums are float32's in any order, which tensor cores may cut off instead of rounding: twice the
/// error of each sum.
inline Expected hgemm_reference(const std::vector<double>& a, const std::vector<double>& b, int64_t m, int64_t n,
                                int64_t k, Rounding rounding) {
  Expected expected(m * n);
  std::vector<double> sizes(static_cast<size_t>(n));
  for (int64_t row = 0; row < m; ++row) {
    double* const sums = expected.values.data() + row * n;
    std::fill(sizes.begin(), sizes.end(), 0.0);
    for (int64_t i = 0; i < k; ++i) {
      const double from_a = a[static_cast<size_t>(row * k + i)];
      for (int64_t column = 0; column < n; ++column) {
        const double product = from_a * b[static_cast<size_t>(i * n + column)];
        sums[column] += product;
        sizes[static_cast<size_t>(column)] += std::abs(product);
      }
    }
    for (int64_t column = 0; column < n; ++column) {
      const double sum_bound = 2 * static_cast<double>(k) * kFloatRounding.unit * sizes[static_cast<size_t>(column)];
      expected.bounds[static_cast<size_t>(row * n + column)] =
          sum_bound + rounding.unit * (std::abs(sums[column]) + sum_bound) + rounding.least;
    }
  }
  return expected;
}

}  // namespace tenfold::kernels
