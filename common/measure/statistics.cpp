#include <tenfold/statistics.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace tenfold {

double order_statistic_coverage(int n, int k) {
  if (k < 1 || 2 * k > n) throw std::invalid_argument("order_statistic_coverage: need 1 <= k <= n / 2");
  double term = std::pow(0.5, n);  // P(Binomial = 0)
  double tail = 0;
  for (int i = 0; i < k; ++i) {
    tail += term;
    term *= static_cast<double>(n - i) / (i + 1);
  }
  return 1 - 2 * tail;
}

int order_statistic_for(int n, double coverage) {
  int best = 0;
  for (int k = 1; 2 * k <= n; ++k) {
    if (order_statistic_coverage(n, k) >= coverage) best = k;
  }
  return best;
}

double median(std::vector<double> values) {
  if (values.empty()) throw std::invalid_argument("median of no values");
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Interval median_interval(std::vector<double> values, double coverage) {
  if (values.empty()) throw std::invalid_argument("median_interval of no values");
  if (!std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); })) {
    throw std::invalid_argument("median_interval: a value is not finite");
  }
  std::sort(values.begin(), values.end());
  const int n = static_cast<int>(values.size());
  const int k = order_statistic_for(n, coverage);
  if (k == 0) return {values.front(), values.back(), median(values), 0};
  return {values[static_cast<size_t>(k) - 1], values[static_cast<size_t>(n - k)], median(values), order_statistic_coverage(n, k)};
}

}  // namespace tenfold
