#pragma once
// The kept solution of exercise 00; CI proves that it passes.
#include "common/result/statistics.h"

#include <string>
#include <vector>

struct Comparison {
  double ratio = 0, low = 0, high = 0;
  std::string answer;  // "faster", "slower" or "cannot tell": is B faster than A?
};

/// `a[i]` and `b[i]` are seconds of neighbouring blocks. tenfold::median_interval(values) gives .middle, .low, .high.
inline Comparison compare(const std::vector<double>& a, const std::vector<double>& b) {
  // Neighbours share the machine's state: what slows one slows the other, and their ratio stays.
  std::vector<double> ratios;
  for (size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  const auto interval = tenfold::median_interval(ratios);
  const bool sure = interval.coverage >= 0.95;  // too few blocks give no interval worth the name
  return {interval.middle, interval.low, interval.high,
          sure && interval.low > 1    ? "faster"
          : sure && interval.high < 1 ? "slower"
                                      : "cannot tell"};
}
