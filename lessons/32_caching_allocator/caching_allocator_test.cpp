#include "caching_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <stdexcept>

#include "batch_lengths.h"

namespace tenfold {
namespace {

using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;

TEST(AllocatorSettings, HoldForAWhile) {
  {
    const AllocatorSettings settings("expandable_segments:True,roundup_power2_divisions:4,max_split_size_mb:64");
    EXPECT_EQ(Config::max_split_size(), size_t{64} << 20);
    EXPECT_TRUE(Config::use_expandable_segments());
    EXPECT_EQ(Config::roundup_power2_divisions(100 << 20), 4U);
  }
  EXPECT_FALSE(Config::use_expandable_segments());
  EXPECT_GT(Config::max_split_size(), size_t{1} << 60) << "blocks of every size are split";
  EXPECT_LE(Config::roundup_power2_divisions(100 << 20), 1U);
}

TEST(AllocatorSettings, ThoseOfTheProcessComeBack) {
  c10::CachingAllocator::setAllocatorSettings("roundup_power2_divisions:8");
  {
    const AllocatorSettings settings("roundup_power2_divisions:2");
  }
  EXPECT_EQ(Config::roundup_power2_divisions(100 << 20), 8U);
  c10::CachingAllocator::setAllocatorSettings("roundup_power2_divisions:1");
}

TEST(AllocatorSettings, NoneChangeNothing) {
  c10::CachingAllocator::setAllocatorSettings("roundup_power2_divisions:8");
  {
    const AllocatorSettings settings("");
  }
  EXPECT_EQ(Config::roundup_power2_divisions(100 << 20), 8U);
  c10::CachingAllocator::setAllocatorSettings("roundup_power2_divisions:1");
}

// A device's own settings are read by a hook, which may refuse them.
TEST(AllocatorSettings, ThatCannotBePutBackDoNotEndTheProcess) {
  std::function<void(const std::string&)>& hook = Config::getConfigParserHook();
  const auto before = hook;
  {
    const AllocatorSettings settings("roundup_power2_divisions:2");
    hook = [](const std::string&) { throw std::invalid_argument("refused"); };
  }
  hook = before;
  EXPECT_LE(Config::roundup_power2_divisions(100 << 20), 1U) << "those that every device has are back";
}

TEST(BatchLengths, AreQuantilesOfTheLongest) {
  // Of one text each, the quantiles 1/4 and 3/4 of four lengths.
  EXPECT_EQ(longest_of_batches({10, 20, 30, 40}, 1, 100, 2), (std::vector<int64_t>{20, 40}));
  // Of many, nearly always the longest.
  EXPECT_EQ(longest_of_batches({10, 20, 30, 40}, 64, 100, 2), (std::vector<int64_t>{40, 40}));
  EXPECT_EQ(longest_of_batches({10, 20, 30, 40}, 64, 25, 1), (std::vector<int64_t>{25})) << "cut to the context";
  EXPECT_THROW(longest_of_batches({}, 1, 100, 1), c10::ValueError);
  EXPECT_THROW(longest_of_batches({1}, 1, 100, 0), c10::ValueError);
}

TEST(BatchLengths, AreRoundedUpToTheContextAtTheMost) {
  EXPECT_EQ(rounded_up(1, 16, 100), 16);
  EXPECT_EQ(rounded_up(16, 16, 100), 16);
  EXPECT_EQ(rounded_up(17, 16, 100), 32);
  EXPECT_EQ(rounded_up(99, 16, 100), 100) << "the model has no position for more";
}

TEST(BatchLengths, AreOthersInEachRoundWithTheSameSumAndTheSameLongest) {
  const std::vector<int64_t> rising{10, 40, 50, 90, 200, 400};
  std::set<std::vector<int64_t>> seen;
  for (const char* const order : {"shuffled", "rising", "falling"}) {
    for (int64_t round = 0; round < 8; ++round) {
      std::vector<int64_t> lengths = drawn_lengths(rising, order, /*seed=*/3, round);
      EXPECT_EQ(lengths, drawn_lengths(rising, order, 3, round));
      EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), int64_t{0}), 790);
      EXPECT_EQ(*std::ranges::max_element(lengths), 400);
      EXPECT_GE(*std::ranges::min_element(lengths), 10);
      if (order == std::string("rising")) EXPECT_TRUE(std::ranges::is_sorted(lengths));
      if (order == std::string("falling")) EXPECT_TRUE(std::ranges::is_sorted(lengths, std::greater<>()));
      seen.insert(lengths);
    }
  }
  EXPECT_GT(seen.size(), 20U) << "of 24, of which few may be the same by chance";
  EXPECT_EQ(drawn_lengths({64, 64, 64}, "equal", 3, 0), (std::vector<int64_t>{64, 64, 64}));
}

}  // namespace
}  // namespace tenfold
