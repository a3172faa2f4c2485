#pragma once
// Your answer to exercise 00. Build and check it with: ./tenfold exercise 00
#include "common/result/statistics.h"

#include <string>
#include <vector>

struct Comparison {
  double ratio = 0, low = 0, high = 0;
  std::string answer;  // "faster", "slower" or "cannot tell": is B faster than A?
};

/// `a[i]` and `b[i]` are seconds of neighbouring blocks. tenfold::median_interval(values) gives .middle, .low, .high.
inline Comparison compare(const std::vector<double>& a, const std::vector<double>& b) {
  // Hint: dividing the means is what everybody does first. What does the slow half do to it?
  double sum_a = 0, sum_b = 0;
  for (const double seconds : a) sum_a += seconds;
  for (const double seconds : b) sum_b += seconds;
  const double ratio = sum_a / sum_b;
  return {ratio, ratio, ratio, ratio > 1 ? "faster" : "slower"};
}
