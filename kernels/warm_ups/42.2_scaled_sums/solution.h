#pragma once
// The kept solution of exercise 42.2; CI proves that it passes.
#include <algorithm>
#include <cstdint>

/// Neighbours of k that share a scale, and columns of C that share one of B.
inline constexpr int64_t kBlock = 128;

/// A product of int8 matrices with scales: C (m, n) = A (m, k) * B (n, k)^T.
struct Product {
  const int8_t *a, *b;
  const float* a_scales;  ///< (blocks of k, m): of a row of A, in a block of k
  const float* b_scales;  ///< (blocks of n, blocks of k): of a block of columns, in a block of k
  int64_t m, n, k;
};

/// C(row, column). Products of codes are summed in int within a block of k; blocks are scaled and added in float.
inline float scaled_sum(const Product& p, int64_t row, int64_t column) {
  const int64_t blocks = (p.k + kBlock - 1) / kBlock;
  float sum = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    int partial = 0;
    for (int64_t i = block * kBlock; i < std::min(p.k, (block + 1) * kBlock); ++i)
      partial += p.a[row * p.k + i] * p.b[column * p.k + i];
    const float a_scale = p.a_scales[block * p.m + row];
    const float b_scale = p.b_scales[column / kBlock * blocks + block];
    sum += a_scale * b_scale * static_cast<float>(partial);
  }
  return sum;
}
