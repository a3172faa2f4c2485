#pragma once
// The statistics behind every verdict: order-statistic intervals of paired ratios. docs/method.md explains them.

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

struct Interval {
  double low = 0, high = 0;
  double middle = 0;    ///< the median
  double coverage = 0;  ///< exact probability of enclosing the true median; 0 when there were too few samples
};

/// Median of a non-empty list; the mean of the two middle values when the count is even.
double median(std::vector<double> values);

/// Median with its order-statistic interval. With too few samples for the coverage asked, [min, max] and coverage 0.
/// Throws std::invalid_argument on an empty list or a value that is not finite.
Interval median_interval(std::vector<double> values, double coverage = 0.95);

}  // namespace tenfold
