#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace tenfold {

/// Neither NaN nor infinity among them.
inline bool all_finite(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

}  // namespace tenfold
