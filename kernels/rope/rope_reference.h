#pragma once
// rope.h in float64, and the usual tables.

#include "kernels/expected.h"
#include "rope.h"

namespace tenfold::kernels {

/// Of pair i at position p the cosine and sine of p / base^(2 i / head_dim), (positions, head_dim / 2) each.
struct RopeTables {
  RopeTables(int64_t positions, int64_t head_dim, double base = 10000) {
    for (int64_t position = 0; position < positions; ++position) {
      for (int64_t pair = 0; pair < head_dim / 2; ++pair) {
        const double turns = 2.0 * static_cast<double>(pair) / static_cast<double>(head_dim);
        const double angle = static_cast<double>(position) / std::pow(base, turns);
        cosines.push_back(static_cast<float>(std::cos(angle)));
        sines.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }
  std::vector<float> cosines, sines;
};

/// rope() of `values` (tokens, heads, head_dim).
inline Expected rope_reference(const std::vector<double>& values, const RopeTables& tables, int64_t tokens,
                               int64_t heads, int64_t head_dim, int64_t positions, Rotation rotation, Rounding type) {
  Expected expected(tokens * heads * head_dim);
  const int64_t half = head_dim / 2;
  const double turn = rotation == Rotation::forward ? 1 : -1;
  for (int64_t token = 0; token < tokens; ++token) {
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t pair = 0; pair < half; ++pair) {
        const auto entry = static_cast<size_t>(token % positions * half + pair);
        const auto i = static_cast<size_t>((token * heads + head) * head_dim + pair), j = i + static_cast<size_t>(half);
        const double cosine = tables.cosines[entry], sine = turn * static_cast<double>(tables.sines[entry]);
        expected.values[i] = values[i] * cosine - values[j] * sine;
        expected.values[j] = values[j] * cosine + values[i] * sine;
        const auto bound = [&](double value, double one, double two) {
          return type.least + type.unit * std::abs(value) + 2 * kFloatRounding.unit * (std::abs(one) + std::abs(two));
        };
        expected.bounds[i] = bound(expected.values[i], values[i] * cosine, values[j] * sine);
        expected.bounds[j] = bound(expected.values[j], values[j] * cosine, values[i] * sine);
      }
    }
  }
  return expected;
}

}  // namespace tenfold::kernels
