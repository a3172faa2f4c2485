#pragma once
// Your answer to exercise 42.2. Build and check it with: ./tenfold exercise 42.2
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
  // Hint: this is right where all of k lies in one block, for the first 128 columns. Scales change with each block.
  int sum = 0;
  for (int64_t i = 0; i < p.k; ++i) sum += p.a[row * p.k + i] * p.b[column * p.k + i];
  return p.a_scales[row] * p.b_scales[0] * static_cast<float>(sum);
}
