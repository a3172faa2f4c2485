#include <gtest/gtest.h>

#include "repeated_crops.h"

#include <cstdint>
#include <vector>

#include "tests/support/loader_samples.h"

namespace {

using namespace tenfold;

TEST(RepeatedCrops, AreCountedOnceForEachThatIsTooMany) {
  EXPECT_EQ(repeated({}), 0);
  EXPECT_EQ(repeated({5, 7, 9}), 0);
  EXPECT_EQ(repeated({5, 7, 5, 5, 7}), 3);
}

TEST(RepeatedCrops, TheLoaderDrawsEachOnceAndTheSameAgain) {
  const LoaderOptions options{.batch = 8, .workers = 3, .seed = 4};
  const std::vector<uint64_t> drawn = numbers_drawn(test::numbers(50), options);
  ASSERT_EQ(drawn.size(), 50U);
  EXPECT_EQ(repeated(drawn), 0);
  EXPECT_EQ(numbers_drawn(test::numbers(50), options), drawn);
}

TEST(RepeatedCrops, SeesWhatTheSampleGetsBehindASeeding) {
  const auto all_alike = [](Dataset samples, uint64_t seed) {
    samples.load = [load = samples.load, seed](int64_t i, SampleRandom&, const Row& row) {
      SampleRandom random(seed, 0, i % 2);
      load(i, random, row);
    };
    return samples;
  };
  EXPECT_EQ(repeated(numbers_drawn(test::numbers(50), {.batch = 8, .workers = 2}, all_alike)), 48);
}

}  // namespace
