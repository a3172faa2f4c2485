#include <gtest/gtest.h>

#include EXERCISE

#include <cmath>
#include <random>
#include <vector>

#include "lessons/33_optimizer_memory/eight_bit_codes.h"

namespace {

constexpr int kOctaves = 24;

/// Values that are spread evenly over the codes' octaves, and the largest.
std::vector<float> squares(float largest, int count = 256) {
  std::mt19937 bits(33);
  std::vector<float> values(static_cast<size_t>(count), largest);
  // The engine's own numbers: a distribution's differ between libraries.
  for (size_t i = 1; i < values.size(); ++i)
    values[i] = largest * static_cast<float>(std::exp2(-kOctaves * (bits() / 4294967296.0)));
  return values;
}

TEST(Exercise33, NoSquareBecomesZero) {
  for (const float value : decode(encode(squares(1e-4F)))) {
    ASSERT_GT(value, 0)
        << "hint: equal steps store a square of under 1/510 of the maximum as zero, and AdamW divides by "
           "its root: space the codes by equal factors";
  }
}

TEST(Exercise33, TheMaximumIsExact) {
  for (const float largest : {1e-12F, 1e-4F, 3.F}) {
    const Block block = encode(squares(largest));
    EXPECT_EQ(block.maximum, largest) << "hint: the maximum is kept in 32 bits";
    EXPECT_EQ(block.codes.at(0), 255) << "hint: the largest value has the largest code";
    EXPECT_NEAR(decode(block).at(0) / largest, 1, 1e-6);
  }
}

TEST(Exercise33, EveryValueIsRightWithinHalfAStep) {
  const double half = std::exp2(kOctaves / 255.0 / 2) - 1;
  const std::vector<float> values = squares(1e-4F), stored = decode(encode(values));
  for (size_t i = 0; i < values.size(); ++i) {
    // A thousandth of it for the arithmetic in 32 bits.
    ASSERT_LE(std::abs(stored[i] / values[i] - 1), 1.001 * half)
        << "hint: value " << i << " is off by more than half a step between two codes: take the nearest one";
  }
}

TEST(Exercise33, WhatIsBelowTheSmallestCodeGetsTheSmallestCode) {
  const std::vector<float> stored = decode(encode(std::vector<float>{1, 1e-9F, 1e-30F, 0}));
  for (size_t i = 1; i < stored.size(); ++i) {
    EXPECT_NEAR(stored[i] * std::exp2(kOctaves), 1, 1e-5)
        << "hint: a value below all codes must get code 0: a negative code in 8 bits is a large one";
  }
}

TEST(Exercise33, ABlockOfZerosStaysZero) {
  for (const float value : decode(encode(std::vector<float>(256, 0.F))))
    ASSERT_EQ(value, 0) << "hint: a block that no gradient has reached has the maximum 0: do not divide by it";
}

TEST(Exercise33, TheCodesAreTheLessons) {
  std::vector<float> values = squares(2e-7F);
  const torch::Tensor row = torch::from_blob(values.data(), {1, 256});
  const torch::Tensor codes = torch::empty({1, 256}, torch::kByte), maxima = torch::empty({1, 1});
  tenfold::encode_squares(row, codes, maxima);
  const Block block = encode(values);
  for (size_t i = 0; i < values.size(); ++i) {
    // Where a value lies in the middle between two codes, rounding in 32 bits may decide for the other.
    ASSERT_NEAR(block.codes[i], codes[0][static_cast<int64_t>(i)].item<int>(), 1) << "value " << i;
  }
}

}  // namespace
