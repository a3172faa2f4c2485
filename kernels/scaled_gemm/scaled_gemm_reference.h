#pragma once
// Matrices turned to 8 bits with scales, and what their product should be, in float64.

#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kernels/expected.h"
#include "scaled_gemm.h"

namespace tenfold::kernels {

/// The largest code that quantising makes: int8 keeps to -127 .. 127, so that the negative of every code is one.
template <class T>
inline constexpr float kLargestCode = std::is_same_v<T, int8_t> ? 127 : 448;

/// The code nearest to value / scale, ties to the even one; beyond the largest code that one.
template <class T>
T code_of(float value, float scale) {
  if constexpr (std::is_same_v<T, int8_t>) {
    return static_cast<int8_t>(std::clamp(std::nearbyint(value / scale), -127.0F, 127.0F));
  } else {
    return T(value / scale);  // cuda_fp8.h saturates
  }
}

/// A matrix (rows, k) in 8 bits: value = code * its scale.
template <class T>
struct EightBits {
  std::vector<T> codes;
  std::vector<float> scales;
};

/// `high` x `wide` neighbours share a scale, which makes the largest of them the largest code. `k_outside`: the scales
/// of one row lie ceil(rows / high) apart, else side by side.
template <class T>
EightBits<T> quantised(const std::vector<float>& values, int64_t rows, int64_t k, int64_t high, int64_t wide,
                       bool k_outside) {
  const int64_t down = (rows + high - 1) / high, across = (k + wide - 1) / wide;
  EightBits<T> result{std::vector<T>(values.size()), std::vector<float>(static_cast<size_t>(down * across))};
  const auto scale_at = [&](int64_t row, int64_t i) -> float& {
    const int64_t block_row = row / high, block = i / wide;
    return result.scales[static_cast<size_t>(k_outside ? block * down + block_row : block_row * across + block)];
  };
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < k; ++i) {
      float& largest = scale_at(row, i);
      largest = std::max(largest, std::abs(values[static_cast<size_t>(row * k + i)]));
    }
  }
  for (float& scale : result.scales) scale = scale == 0 ? 1 : scale / kLargestCode<T>;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < k; ++i) {
      const auto at = static_cast<size_t>(row * k + i);
      result.codes[at] = code_of<T>(values[at], scale_at(row, i));
    }
  }
  return result;
}

/// A (rows, k), or B, with the scales that scaled_gemm() takes.
template <class T>
EightBits<T> quantised_a(const std::vector<float>& values, int64_t m, int64_t k, ScaledGemmScales scales) {
  if (scales == ScaledGemmScales::tensor) return quantised<T>(values, m, k, m, k, true);
  return quantised<T>(values, m, k, 1, kScaleBlock, true);
}
template <class T>
EightBits<T> quantised_b(const std::vector<float>& values, int64_t n, int64_t k, ScaledGemmScales scales) {
  if (scales == ScaledGemmScales::tensor) return quantised<T>(values, n, k, n, k, false);
  return quantised<T>(values, n, k, kScaleBlock, kScaleBlock, false);
}

/// The values that the codes of A stand for, and those of B; exact.
template <class T>
std::vector<double> dequantised_a(const EightBits<T>& a, int64_t m, int64_t k, ScaledGemmScales scales) {
  std::vector<double> values(static_cast<size_t>(m * k));
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t i = 0; i < k; ++i) {
      const int64_t at = scales == ScaledGemmScales::tensor ? 0 : i / kScaleBlock * m + row;
      const auto code = static_cast<double>(static_cast<float>(a.codes[static_cast<size_t>(row * k + i)]));
      values[static_cast<size_t>(row * k + i)] = code * static_cast<double>(a.scales[static_cast<size_t>(at)]);
    }
  }
  return values;
}
template <class T>
std::vector<double> dequantised_b(const EightBits<T>& b, int64_t n, int64_t k, ScaledGemmScales scales) {
  const int64_t blocks = (k + kScaleBlock - 1) / kScaleBlock;
  std::vector<double> values(static_cast<size_t>(n * k));
  for (int64_t column = 0; column < n; ++column) {
    for (int64_t i = 0; i < k; ++i) {
      const int64_t at = scales == ScaledGemmScales::tensor ? 0 : column / kScaleBlock * blocks + i / kScaleBlock;
      const auto code = static_cast<double>(static_cast<float>(b.codes[static_cast<size_t>(column * k + i)]));
      values[static_cast<size_t>(column * k + i)] = code * static_cast<double>(b.scales[static_cast<size_t>(at)]);
    }
  }
  return values;
}

/// C (m, n) = A (m, k) * B (n, k)^T in float64, and how far float32 sums may lead from it. Both scales, their product
/// and its use round once each, and so does each addition; tensor cores may cut off instead, twice the error.
/// `sum_unit` is the unit of the sums of products, larger than float32's where tensor cores keep fewer bits: each of 33
/// addends of a step of 32 is then cut off at the largest one's.
inline Expected scaled_gemm_reference(const std::vector<double>& a, const std::vector<double>& b, int64_t m, int64_t n,
                                      int64_t k, double sum_unit = kFloatRounding.unit) {
  Expected expected(m * n);
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      double sum = 0, size = 0;
      for (int64_t i = 0; i < k; ++i) {
        const double product = a[static_cast<size_t>(row * k + i)] * b[static_cast<size_t>(column * k + i)];
        sum += product;
        size += std::abs(product);
      }
      const auto at = static_cast<size_t>(row * n + column);
      expected.values[at] = sum;
      expected.bounds[at] =
          2 * size * (static_cast<double>(k + 4) * kFloatRounding.unit + static_cast<double>(k + 33) * sum_unit) +
          kFloatRounding.least;
    }
  }
  return expected;
}

}  // namespace tenfold::kernels
