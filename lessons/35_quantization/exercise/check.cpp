#include <gtest/gtest.h>

#include EXERCISE

#include <cmath>
#include <random>
#include <vector>

namespace {

constexpr size_t kInputs = 96, kOutputs = 12;

/// Numbers from -1 to 1, the same everywhere: a distribution's differ between libraries.
std::vector<float> numbers(size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(bits() / 2147483648.0 - 1);
  return values;
}

/// Outputs whose weights are a few thousand times smaller than others'.
std::vector<float> some_weight() {
  std::vector<float> weight = numbers(kOutputs * kInputs, 35);
  for (size_t i = 0; i < weight.size(); ++i)
    weight[i] *= static_cast<float>(std::exp2(-static_cast<double>(i / kInputs)));
  return weight;
}

double stored(const Int8Weight& weight, size_t output, size_t i) {
  return static_cast<double>(weight.codes.at(output * kInputs + i)) * weight.scales.at(output);
}

TEST(Exercise35, EveryOutputHasItsOwnScale) {
  const std::vector<float> weight = some_weight();
  const Int8Weight found = quantize_weight(weight, kInputs);
  ASSERT_EQ(found.scales.size(), kOutputs);
  ASSERT_EQ(found.codes.size(), weight.size());
  for (size_t output = 0; output < kOutputs; ++output) {
    double largest = 0;
    for (size_t i = 0; i < kInputs; ++i) largest = std::max<double>(largest, std::abs(weight[output * kInputs + i]));
    for (size_t i = 0; i < kInputs; ++i) {
      // Half a step, and a thousandth of it for the arithmetic in 32 bits.
      ASSERT_NEAR(stored(found, output, i), weight[output * kInputs + i], 1.001 * largest / 127 / 2)
          << "hint: output " << output << " has steps that are too coarse for its weights: give each output a scale";
    }
  }
}

TEST(Exercise35, TheSumsAreThoseOfTheCodes) {
  const Int8Weight found = quantize_weight(some_weight(), kInputs);
  ASSERT_EQ(found.sums.size(), kOutputs);
  for (size_t output = 0; output < kOutputs; ++output) {
    int32_t sum = 0;
    for (size_t i = 0; i < kInputs; ++i) sum += found.codes.at(output * kInputs + i);
    EXPECT_EQ(found.sums[output], sum) << "hint: the sum of the codes of one output alone";
  }
}

TEST(Exercise35, AnOutputOfZerosGivesZero) {
  const Int8Weight found = quantize_weight(std::vector<float>(2 * kInputs, 0.F), kInputs);
  const std::vector<float> result = int8_product(found, quantize_values(numbers(kInputs, 1)));
  ASSERT_EQ(result.size(), 2U);
  for (const float value : result) EXPECT_EQ(value, 0) << "hint: nothing to divide by: the scale of zeros is 1";
}

TEST(Exercise35, ValuesThatAreNeverNegativeAndThoseThatAre) {
  const std::vector<float> weight = some_weight();
  const Int8Weight found = quantize_weight(weight, kInputs);
  for (const float shift : {0.F, 1.F, -1.F, 3.F}) {
    std::vector<float> x = numbers(kInputs, 2);
    for (float& value : x) value += shift;
    const UInt8Values codes = quantize_values(x);
    const std::vector<float> result = int8_product(found, codes);
    ASSERT_EQ(result.size(), kOutputs);
    for (size_t output = 0; output < kOutputs; ++output) {
      double exact = 0, size = 0;
      for (size_t i = 0; i < kInputs; ++i) {
        const double term = stored(found, output, i) * codes.scale * (codes.codes.at(i) - codes.zero);
        exact += term;
        size += std::abs(term);
      }
      // The sum of integers is exact; its factor is rounded a few times in 32 bits.
      ASSERT_NEAR(result[output], exact, 1e-6 * size)
          << "hint: of values from " << shift - 1 << " to " << shift + 1
          << " the code of zero is not 0; what it adds to a sum is that code times the sum of the output's codes";
    }
  }
}

TEST(Exercise35, LongSumsDoNotOverflow) {
  // 50,000 products of 127 and 127 are 806 million: they fit into 32 bits and not into 16.
  constexpr size_t kLong = 50000;
  const Int8Weight ones = quantize_weight(std::vector<float>(kLong, 1.F), kLong);
  const std::vector<float> result = int8_product(ones, quantize_values(std::vector<float>(kLong, 2.F)));
  EXPECT_NEAR(result.at(0) / (2.0 * kLong), 1, 1e-5) << "hint: add up in 32 bits";
}

}  // namespace
