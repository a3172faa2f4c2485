#include <tenfold/statistics.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
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
