#include <gtest/gtest.h>

#include EXERCISE

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace {

/// A product whose scales are powers of two and whose codes are small, so that every sum is exact in whatever order.
struct Problem {
  Problem(int64_t m, int64_t n, int64_t k, bool scaled)
      : m(m), n(n), k(k), blocks((k + kBlock - 1) / kBlock), a(filled(m * k)), b(filled(n * k)) {
    for (int64_t i = 0; i < blocks * m; ++i) a_scales.push_back(scaled ? power() : 1);
    for (int64_t i = 0; i < (n + kBlock - 1) / kBlock * blocks; ++i) b_scales.push_back(scaled ? power() : 1);
  }
  Product product() const { return {a.data(), b.data(), a_scales.data(), b_scales.data(), m, n, k}; }

  /// Every value scaled by itself, as rung 0 of the ladder does it.
  float expected(int64_t row, int64_t column) const {
    double sum = 0;
    for (int64_t i = 0; i < k; ++i) {
      const int64_t block = i / kBlock;
      sum += static_cast<double>(a_scales[static_cast<size_t>(block * m + row)]) * a[static_cast<size_t>(row * k + i)] *
             static_cast<double>(b_scales[static_cast<size_t>(column / kBlock * blocks + block)]) *
             b[static_cast<size_t>(column * k + i)];
    }
    return static_cast<float>(sum);
  }

  int64_t m, n, k, blocks;
  std::mt19937 bits{7};
  std::vector<int8_t> a, b;
  std::vector<float> a_scales, b_scales;

 private:
  std::vector<int8_t> filled(int64_t count) {
    std::vector<int8_t> codes;
    for (int64_t i = 0; i < count; ++i) codes.push_back(static_cast<int8_t>(static_cast<int>(bits() % 31) - 15));
    return codes;
  }
  float power() { return static_cast<float>(1 << bits() % 5); }
};

std::string text_of(const Problem& p, int64_t row, int64_t column) {
  return "C(" + std::to_string(row) + ", " + std::to_string(column) + ") of " + std::to_string(p.m) + " x " +
         std::to_string(p.n) + " x " + std::to_string(p.k);
}

TEST(Exercise42_2, OneBlockIsOneSum) {
  for (const int64_t k : {1, 100, 128}) {
    const Problem p(3, 5, k, true);
    ASSERT_EQ(scaled_sum(p.product(), 2, 4), p.expected(2, 4))
        << "hint: " << text_of(p, 2, 4) << ": scale of A times scale of B times the sum of products";
  }
}

TEST(Exercise42_2, BlocksOfKAddUp) {
  for (const int64_t k : {129, 256, 384, 1000}) {
    const Problem p(3, 5, k, false);
    ASSERT_EQ(scaled_sum(p.product(), 1, 3), p.expected(1, 3))
        << "hint: with every scale 1, " << text_of(p, 1, 3)
        << " is a plain sum of products; does each block's sum begin at 0, and is the last, shorter block among them?";
  }
}

TEST(Exercise42_2, ColumnsOfABlockShareTheScaleOfB) {
  Problem p(1, 300, 256, true);
  std::ranges::fill(p.a_scales, 1.0F);
  ASSERT_EQ(scaled_sum(p.product(), 0, 0), p.expected(0, 0)) << "hint: " << text_of(p, 0, 0);
  ASSERT_EQ(scaled_sum(p.product(), 0, 200), p.expected(0, 200))
      << "hint: C(0, 0) is right and C(0, 200) is not; columns 128 to 255 have a row of scales of their own";
}

TEST(Exercise42_2, RowsHaveTheirOwnScale) {
  Problem p(7, 2, 400, true);
  std::ranges::fill(p.b_scales, 1.0F);
  for (int64_t row = 0; row < p.m; ++row) {
    ASSERT_EQ(scaled_sum(p.product(), row, 1), p.expected(row, 1))
        << "hint: the scale of A for " << text_of(p, row, 1) << "; rows are innermost in its matrix (blocks of k, m)";
  }
}

TEST(Exercise42_2, AllTogether) {
  const Problem p(6, 270, 700, true);
  for (int64_t row = 0; row < p.m; ++row) {
    for (int64_t column = 0; column < p.n; ++column)
      ASSERT_EQ(scaled_sum(p.product(), row, column), p.expected(row, column)) << "hint: " << text_of(p, row, column);
  }
}

}  // namespace
