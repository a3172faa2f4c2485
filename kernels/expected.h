#pragma once
// How the kernels over rows are judged, by their tests and their pages: float64 values and, for each, how far from it
// rounding may lead.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace tenfold::kernels {

/// Of the type that a kernel reads and writes: the largest relative error of rounding, and a few of the smallest steps.
struct Rounding {
  double unit, least;
};
inline constexpr Rounding kFloatRounding{0x1p-24, 0x1p-147}, kHalfRounding{0x1p-11, 0x1p-24},
    kBfloat16Rounding{0x1p-8, 0x1p-131};

/// What a kernel should write, and the largest allowed abs(result - value).
struct Expected {
  explicit Expected(int64_t count) : values(static_cast<size_t>(count)), bounds(static_cast<size_t>(count)) {}
  std::vector<double> values, bounds;
};

/// Relative error of a float sum of `count` terms, beside the sum of their magnitudes: rounding errors walk at random,
/// and no kernel's order is worse than one after the other.
inline double sum_error(int64_t count) { return kFloatRounding.unit * (8 + 2 * std::sqrt(static_cast<double>(count))); }

/// The largest abs(result - value) / bound; infinity where only one of the two is NaN. `results` are numbers of any
/// type.
template <class Results>
double worst_error(const Results& results, const Expected& expected) {
  double worst = 0;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const double value = expected.values[i],
                 result = static_cast<double>(static_cast<float>(*(results.begin() + static_cast<int64_t>(i))));
    double error = std::abs(result - value) / expected.bounds[i];
    if (result == value || (std::isnan(result) && std::isnan(value))) {
      error = 0;
    } else if (!(error >= 0)) {
      error = std::numeric_limits<double>::infinity();
    }
    if (error > worst) worst = error;
  }
  return worst;
}

}  // namespace tenfold::kernels
