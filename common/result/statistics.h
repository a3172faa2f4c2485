#pragma once
// The statistics behind every verdict: distribution-free intervals of ratios. docs/method.md explains them.

#include <cstdint>
#include <vector>

namespace tenfold {

/// The probability that the k-th smallest and the k-th largest of n independent samples enclose the true median:
/// 1 - 2 P(Binomial(n, 1/2) <= k - 1). Distribution-free and exact for continuous distributions. 1 <= k <= n / 2.
/// Source: H. A. David and H. N. Nagaraja, Order Statistics, 3rd ed., section 7.1.
double order_statistic_coverage(int n, int k);

/// The narrowest order statistic k whose interval still covers the median with at least `coverage`; 0 when n samples
/// are too few for it. At 12 samples and 95 % this is 3: the 3rd to the 10th value, 96.1 %.
int order_statistic_for(int n, double coverage = 0.95);

/// The same for quotients against two equal baselines. In each of n rounds one block is divided by two others; of the
/// 2n quotients, the number below the true ratio is a sum of n numbers that are 0, 1 or 2 with equal probability, since
/// a block's rank among three exchangeable ones is uniform, whatever the noise. The k-th smallest and the k-th largest
/// enclose the true ratio with probability 1 - 2 P(sum <= k - 1). 1 <= k <= n.
double rank_of_three_coverage(int n, int k);

/// The narrowest k with at least `coverage`; 0 when n rounds are too few. At 12 rounds this is 7: the 7th to the 18th
/// of 24 quotients, 95.0 %.
int rank_of_three_for(int n, double coverage = 0.95);

struct Interval {
  double low = 0, high = 0;
  double middle = 0;    ///< the median, or the mean that the interval is centred on
  double coverage = 0;  ///< probability of enclosing the truth; 0 when there were too few samples

  /// high / low - 1: "2 %" for [0.99, 1.01].
  double width() const { return high / low - 1; }
};

/// Median of a non-empty list; the mean of the two middle values when the count is even.
double median(std::vector<double> values);

/// Median with its order-statistic interval. With too few samples for the coverage asked, [min, max] and coverage 0.
/// Throws std::invalid_argument on an empty list or a value that is not finite.
Interval median_interval(std::vector<double> values, double coverage = 0.95);

/// Median of 2n quotients, two from each of n rounds, with the interval from the rank among three. With too few rounds
/// [min, max] and coverage 0. Throws std::invalid_argument on an odd or empty list or a value that is not finite.
Interval rank_of_three_interval(std::vector<double> quotients, double coverage = 0.95);

/// Mean of independent samples with Student's 95 % interval; one sample alone is its own interval, with coverage 0.
/// Throws std::invalid_argument on none, or a value that is not finite.
Interval mean_interval(const std::vector<double>& samples);

/// Geometric mean of independent positive samples with Student's 95 % interval of their logarithms. Throws
/// std::invalid_argument on fewer than two, or a value that is not positive.
Interval student_interval(const std::vector<double>& samples);

}  // namespace tenfold
