#include "common/base/rank_numbers.h"

#include <gtest/gtest.h>

#include "tests/support/support.h"

namespace tenfold {
namespace {

constexpr RankNumbers kPair{.unit = 2}, kAny{.unit = 1, .as_many = true}, kEven{.unit = 2, .as_many = true};

TEST(RankNumbers, AFixedShapeTakesOneNumberAndTheOtherItsMultiples) {
  const auto taken = [](const RankNumbers& ranks) {
    std::vector<int> numbers;
    for (int number = -2; number <= 4; ++number) {
      if (ranks.takes(number)) numbers.push_back(number);
    }
    return numbers;
  };
  EXPECT_EQ(taken({}), (std::vector<int>{1}));
  EXPECT_EQ(taken(kPair), (std::vector<int>{2}));
  EXPECT_EQ(taken(kAny), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(taken(kEven), (std::vector<int>{2, 4}));
}

TEST(RankNumbers, UnlessGivenThereAreAsManyAsGpusAndTwoOnACpu) {
  EXPECT_EQ(ranks_unless_given(kAny, 0), 2);
  EXPECT_EQ(ranks_unless_given(kAny, 1), 2) << "one GPU: two ranks on the CPU, as without any";
  EXPECT_EQ(ranks_unless_given(kAny, 3), 3);
  EXPECT_EQ(ranks_unless_given(kAny, 8), 8);
  EXPECT_EQ(ranks_unless_given(kAny, 1000), kMostRanks);
  EXPECT_EQ(ranks_unless_given(kEven, 0), 2);
  EXPECT_EQ(ranks_unless_given(kEven, 7), 6);
  EXPECT_EQ(ranks_unless_given({.unit = 4, .as_many = true}, 2), 4) << "what the fixed dimensions need";
}

TEST(RankNumbers, OnlyVisibleDevicesAreCounted) {
  EXPECT_EQ(visible_among("0"), 1U);
  EXPECT_EQ(visible_among("3,1,GPU-8932f937"), 3U);
  EXPECT_EQ(visible_among(""), 0U);
  EXPECT_EQ(visible_among("-1"), 0U);
  EXPECT_EQ(visible_among("0,-1,1"), 1U) << "CUDA reads no further";
}

TEST(RankNumbers, WhatNoPartTakesIsRefused) {
  const auto said = [](const std::vector<int>& numbers, const std::vector<NamedRankNumbers>& chosen) {
    return test::message_of<UsageError>([&] { check_ranks(numbers, chosen); });
  };
  EXPECT_EQ(said({2, 4}, {{"alone", {}}, {"any", kAny}, {"even", kEven}}), "");
  EXPECT_EQ(said({}, {{"alone", {}}}), "") << "nothing was asked for";
  EXPECT_EQ(said({2}, {{"alone", {}}, {"pair", kPair}}),
            "--ranks: none of 'alone', 'pair' runs on as many ranks as there are; leave the flag out");
  EXPECT_EQ(said({2, 3}, {{"any", kAny}, {"even", kEven}}), "--ranks 3: 'even' needs a multiple of 2");
}

TEST(RankNumbers, ReadsTheFlag) {
  EXPECT_TRUE(ranks_given({}).empty());
  EXPECT_EQ(ranks_given({{"--ranks", {"4,1,2"}}}), (std::vector<int>{4, 1, 2}));
}

}  // namespace
}  // namespace tenfold
