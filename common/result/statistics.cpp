#include "common/result/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace tenfold {
namespace {

// P(sum of n uniform 0, 1, 2 = j) for j = 0 .. 2n.
std::vector<double> sums_of_three(int n) {
  std::vector<double> probability{1};
  for (int i = 0; i < n; ++i) {
    probability.resize(probability.size() + 2, 0);
    for (size_t j = probability.size(); j-- > 0;) {
      probability[j] = (probability[j] + (j > 0 ? probability[j - 1] : 0) + (j > 1 ? probability[j - 2] : 0)) / 3;
      if (probability[j] < 1e-30) probability[j] = 0;  // denormals would be slow
    }
  }
  return probability;
}

// P(Binomial(n, 1/2) = i), by logarithms: 2^-n alone leaves the range of double at some 1,000 samples.
double binomial(int n, int i) {
  return std::exp(std::lgamma(n + 1.0) - std::lgamma(i + 1.0) - std::lgamma(n - i + 1.0) - n * std::log(2.0));
}

void check_finite(const std::vector<double>& values, const char* who) {
  if (values.empty()) throw std::invalid_argument(std::string(who) + " of no values");
  if (!std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); })) {
    throw std::invalid_argument(std::string(who) + ": a value is not finite");
  }
}

// From the k-th smallest to the k-th largest of sorted values; all of them, without coverage, when k is 0.
Interval enclosed(const std::vector<double>& sorted, int k, double coverage) {
  if (k == 0) return {sorted.front(), sorted.back(), median(sorted), 0};
  const auto i = static_cast<size_t>(k);
  return {sorted[i - 1], sorted[sorted.size() - i], median(sorted), coverage};
}

// The 97.5 % quantile of Student's distribution for 1 to 30 degrees of freedom; beyond, that of 30 is a little wide.
constexpr std::array<double, 30> kStudent = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                             2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                             2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};

}  // namespace

double order_statistic_coverage(int n, int k) {
  if (k < 1 || 2 * k > n) throw std::invalid_argument("order_statistic_coverage: need 1 <= k <= n / 2");
  double tail = 0;
  for (int i = 0; i < k; ++i) tail += binomial(n, i);
  return 1 - 2 * tail;
}

int order_statistic_for(int n, double coverage) {
  double tail = 0;
  int best = 0;
  for (int k = 1; 2 * k <= n; ++k) {
    tail += binomial(n, k - 1);
    if (1 - 2 * tail < coverage) break;
    best = k;
  }
  return best;
}

double rank_of_three_coverage(int n, int k) {
  if (k < 1 || k > n) throw std::invalid_argument("rank_of_three_coverage: need 1 <= k <= n");
  const std::vector<double> probability = sums_of_three(n);
  return 1 - 2 * std::accumulate(probability.begin(), probability.begin() + k, 0.0);
}

int rank_of_three_for(int n, double coverage) {
  const std::vector<double> probability = sums_of_three(n);
  double tail = 0;
  int best = 0;
  for (int k = 1; k <= n; ++k) {
    tail += probability[static_cast<size_t>(k) - 1];
    if (1 - 2 * tail < coverage) break;
    best = k;
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
  check_finite(values, "median_interval");
  std::sort(values.begin(), values.end());
  const int n = static_cast<int>(values.size()), k = order_statistic_for(n, coverage);
  return enclosed(values, k, k == 0 ? 0 : order_statistic_coverage(n, k));
}

Interval rank_of_three_interval(std::vector<double> quotients, double coverage) {
  check_finite(quotients, "rank_of_three_interval");
  if (quotients.size() % 2 != 0) throw std::invalid_argument("rank_of_three_interval: a round has two quotients");
  std::sort(quotients.begin(), quotients.end());
  const int n = static_cast<int>(quotients.size() / 2), k = rank_of_three_for(n, coverage);
  return enclosed(quotients, k, k == 0 ? 0 : rank_of_three_coverage(n, k));
}

Interval mean_interval(const std::vector<double>& samples) {
  check_finite(samples, "mean_interval");
  if (samples.size() == 1) return {samples[0], samples[0], samples[0], 0};
  const auto n = static_cast<double>(samples.size());
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  double squares = 0;
  for (const double sample : samples) squares += (sample - mean) * (sample - mean);
  const double half = kStudent[std::min(samples.size() - 2, kStudent.size() - 1)] * std::sqrt(squares / (n - 1) / n);
  return {mean - half, mean + half, mean, 0.95};
}

Interval student_interval(const std::vector<double>& samples) {
  if (samples.size() < 2) throw std::invalid_argument("student_interval needs two samples or more");
  std::vector<double> logarithms;
  for (const double sample : samples) {
    if (!(sample > 0) || !std::isfinite(sample))
      throw std::invalid_argument("student_interval: a value is not positive");
    logarithms.push_back(std::log(sample));
  }
  const Interval interval = mean_interval(logarithms);
  return {std::exp(interval.low), std::exp(interval.high), std::exp(interval.middle), interval.coverage};
}

}  // namespace tenfold
