#include "common/result/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <stdexcept>

namespace tenfold {
namespace {

TEST(OrderStatistics, CoverageIsTheBinomialSum) {
  EXPECT_NEAR(order_statistic_coverage(12, 3), 1 - 2 * (1 + 12 + 66) / 4096.0, 1e-12);  // 96.1 %
  EXPECT_NEAR(order_statistic_coverage(6, 1), 1 - 2 / 64.0, 1e-12);
  EXPECT_NEAR(order_statistic_coverage(2, 1), 0.5, 1e-12);
  EXPECT_THROW(order_statistic_coverage(4, 0), std::invalid_argument);
  EXPECT_THROW(order_statistic_coverage(4, 3), std::invalid_argument);
}

TEST(OrderStatistics, TheNarrowestIntervalThatStillCovers) {
  EXPECT_EQ(order_statistic_for(12), 3);
  EXPECT_EQ(order_statistic_for(6), 1);
  EXPECT_EQ(order_statistic_for(5), 0) << "5 samples cover 93.75 % at most";
  for (int n = 6; n <= 60; ++n) {
    const int k = order_statistic_for(n);
    ASSERT_GE(k, 1) << n;
    EXPECT_GE(order_statistic_coverage(n, k), 0.95) << n;
    if (2 * (k + 1) <= n) {
      EXPECT_LT(order_statistic_coverage(n, k + 1), 0.95) << n << " samples allow a narrower interval";
    }
  }
}

// The claim of the interval, tried out: 12 samples of a skewed distribution, whose median is known.
TEST(OrderStatistics, CoverTheTrueMedianAsOftenAsPromised) {
  std::mt19937_64 random(7);
  std::exponential_distribution<double> skewed(1.0);
  const double truth = std::log(2.0);
  const int trials = 20000;
  int covered = 0;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> values(12);
    for (double& value : values) value = skewed(random);
    const Interval interval = median_interval(values);
    covered += interval.low <= truth && truth <= interval.high ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(covered) / trials, order_statistic_coverage(12, 3), 0.005);
}

// The table of docs/method.md.
TEST(RankOfThree, IsExactForARankThatIsUniform) {
  const std::map<int, std::pair<int, double>> known = {{6, {2, 0.981}},   {12, {7, 0.950}},   {24, {16, 0.968}},
                                                       {48, {37, 0.959}}, {100, {84, 0.957}}, {400, {368, 0.953}}};
  for (const auto& [n, row] : known) {
    EXPECT_EQ(rank_of_three_for(n), row.first) << n;
    EXPECT_NEAR(rank_of_three_coverage(n, row.first), row.second, 5e-4) << n;
  }
  EXPECT_EQ(rank_of_three_for(2), 0) << "two rounds cover 7 of 9 at most";
  EXPECT_NEAR(rank_of_three_coverage(2, 1), 7.0 / 9, 1e-12);
  EXPECT_THROW(rank_of_three_coverage(4, 0), std::invalid_argument);
  EXPECT_THROW(rank_of_three_coverage(4, 5), std::invalid_argument);
}

TEST(RankOfThree, ManyRoundsNeitherUnderflowNorDrift) {
  const int k = rank_of_three_for(2000);
  EXPECT_GE(rank_of_three_coverage(2000, k), 0.95);
  EXPECT_LT(rank_of_three_coverage(2000, k + 1), 0.95);
  // By the normal approximation: a sum of 2000 with mean 1 and variance 2/3.
  EXPECT_NEAR(k, 2000 - 1.96 * std::sqrt(2000 * 2.0 / 3), 2);
  EXPECT_NEAR(order_statistic_for(2000), 1000 - 1.96 * std::sqrt(500.0), 2);
}

// Noise with a tail to one side, as shared machines have it. The mean of two baselines would be biased.
TEST(RankOfThree, CoversWhateverTheNoise) {
  std::mt19937_64 random(11);
  std::exponential_distribution<double> tail(1.0);
  std::normal_distribution<double> normal;
  const auto skewed = [&] { return 1 + 0.3 * tail(random); };
  const auto even = [&] { return std::exp(0.05 * normal(random)); };
  const auto covered = [&](const auto& block, int rounds) {
    const int trials = 4000;
    int hits = 0;
    for (int trial = 0; trial < trials; ++trial) {
      std::vector<double> quotients;
      for (int i = 0; i < rounds; ++i) {
        const double technique = block(), a = block(), b = block();
        quotients.insert(quotients.end(), {a / technique, b / technique});
      }
      const Interval interval = rank_of_three_interval(quotients);
      hits += interval.low <= 1 && 1 <= interval.high ? 1 : 0;
    }
    return static_cast<double>(hits) / trials;
  };
  for (const int rounds : {12, 100, 400}) {
    EXPECT_NEAR(covered(skewed, rounds), rank_of_three_coverage(rounds, rank_of_three_for(rounds)), 0.012) << rounds;
    EXPECT_NEAR(covered(even, rounds), rank_of_three_coverage(rounds, rank_of_three_for(rounds)), 0.012) << rounds;
  }
}

TEST(RankOfThree, TakesTheSeventhAndTheEighteenthOfTwentyFour) {
  std::vector<double> quotients(24);
  for (size_t i = 0; i < quotients.size(); ++i) quotients[(7 * i) % 24] = static_cast<double>(i + 1);
  const Interval interval = rank_of_three_interval(quotients);
  EXPECT_EQ(interval.low, 7);
  EXPECT_EQ(interval.high, 18);
  EXPECT_EQ(interval.middle, 12.5);
  EXPECT_EQ(rank_of_three_interval({2, 3}).coverage, 0) << "one round claims no coverage";
  EXPECT_THROW(rank_of_three_interval({1, 2, 3}), std::invalid_argument);
}

TEST(Student, IntervalOfTheLogarithms) {
  // Logarithms 0 and 1: mean 0.5, standard error 0.5, and 12.706 of them on either side.
  const Interval interval = student_interval({1, std::exp(1.0)});
  EXPECT_NEAR(interval.middle, std::exp(0.5), 1e-12);
  EXPECT_NEAR(interval.low, std::exp(0.5 - 12.706 * 0.5), 1e-9);
  EXPECT_NEAR(student_interval({2, 2, 2}).width(), 0, 1e-12);
  EXPECT_THROW(student_interval({1}), std::invalid_argument);
  EXPECT_THROW(student_interval({1, 0}), std::invalid_argument);
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  int covered = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    std::vector<double> samples(6);
    for (double& sample : samples) sample = std::exp(0.02 * normal(random));
    const Interval found = student_interval(samples);
    covered += found.low <= 1 && 1 <= found.high ? 1 : 0;
  }
  EXPECT_NEAR(covered / 4000.0, 0.95, 0.012);
}

TEST(Median, OddEvenAndNothing) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_THROW(median({}), std::invalid_argument);
}

TEST(MedianInterval, TakesTheThirdAndTheTenthOfTwelve) {
  const Interval interval = median_interval({12, 1, 11, 2, 10, 3, 9, 4, 8, 5, 7, 6});
  EXPECT_EQ(interval.low, 3);
  EXPECT_EQ(interval.high, 10);
  EXPECT_EQ(interval.middle, 6.5);
  EXPECT_NEAR(interval.coverage, 0.9614, 1e-4);
}

TEST(MedianInterval, TooFewSamplesClaimNoCoverage) {
  const Interval interval = median_interval({2, 1, 3});
  EXPECT_EQ(interval.low, 1);
  EXPECT_EQ(interval.high, 3);
  EXPECT_EQ(interval.coverage, 0);
}

TEST(MedianInterval, RefusesWhatIsNoNumber) {
  EXPECT_THROW(median_interval({}), std::invalid_argument);
  EXPECT_THROW(median_interval({1, std::numeric_limits<double>::quiet_NaN()}), std::invalid_argument);
  EXPECT_THROW(median_interval({1, std::numeric_limits<double>::infinity()}), std::invalid_argument);
}

}  // namespace
}  // namespace tenfold
