#pragma once
// adamw.h in float64.

#include "adamw.h"
#include "kernels/expected.h"

namespace tenfold::kernels {

/// A tensor's state in float64, and how far rounding in float may have led from it.
struct AdamWReference {
  explicit AdamWReference(const std::vector<float>& from)
      : parameter(static_cast<int64_t>(from.size())),
        average(static_cast<int64_t>(from.size())),
        square_average(static_cast<int64_t>(from.size())) {
    parameter.values.assign(from.begin(), from.end());
  }

  /// One step, by the formulas of the paper's algorithm 2; the bounds grow with it.
  void update(const std::vector<float>& gradient, const AdamWSettings& s, int64_t step) {
    constexpr double kUnit = kFloatRounding.unit, kLeast = kFloatRounding.least;
    const double correction1 = 1 - std::pow(s.beta1, static_cast<double>(step));
    const double correction2 = 1 - std::pow(s.beta2, static_cast<double>(step));
    for (size_t i = 0; i < gradient.size(); ++i) {
      double &p = parameter.values[i], &m = average.values[i], &v = square_average.values[i];
      double &p_error = parameter.bounds[i], &m_error = average.bounds[i], &v_error = square_average.bounds[i];
      const double g = gradient[i], m_before = std::abs(s.beta1 * m), v_before = s.beta2 * v;
      m = s.beta1 * m + (1 - s.beta1) * g;
      v = s.beta2 * v + (1 - s.beta2) * g * g;
      m_error =
          s.beta1 * m_error + 3 * kUnit * (m_before + (1 - s.beta1) * std::abs(g)) + kLeast;  // factor, product, sum
      v_error = s.beta2 * v_error + 4 * kUnit * (v_before + (1 - s.beta2) * g * g) + kLeast;
      const double root = std::sqrt(v / correction2), below = root + s.epsilon;
      const double adam = m / correction1 / below;
      // The root's own error: half the relative one of v, where that is small; never more than the root of the absolute
      // one.
      const double root_error = v_error < v ? v_error / v * root : std::sqrt(2 * v_error / correction2);
      const double adam_error = m_error / correction1 / below + std::abs(adam) * (root_error / below + 8 * kUnit);
      const double change = s.learning_rate * (adam + s.weight_decay * p);
      p_error += s.learning_rate * (adam_error + s.weight_decay * (p_error + 4 * kUnit * std::abs(p)));
      p -= change;
      p_error += kUnit * (std::abs(p) + 2 * std::abs(change)) + kLeast;
    }
  }

  Expected parameter, average, square_average;
};

}  // namespace tenfold::kernels
