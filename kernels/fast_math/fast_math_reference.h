#pragma once
// What fast_math() should write, and how far from it NVIDIA's documents allow it to be.

#include <vector>

#include "fast_math_error.h"
#include "kernels/expected.h"

namespace tenfold::kernels {

/// fast_math() for these floats. A bound is infinite where NVIDIA states no error: there any number passes, but not
/// NaN.
inline Expected fast_math_reference(const std::vector<float>& in, MathFunction function, int repeats, int rung) {
  Expected expected(static_cast<int64_t>(in.size()));
  for (size_t i = 0; i < in.size(); ++i) {
    double& sum = expected.values[i];
    double& bound = expected.bounds[i];
    float x = in[i];
    for (int r = 0; r < repeats; ++r, x += kFastMathStep) {
      sum += math_value(function, x);
      bound += documented_error(function, rung, x);
      if (r > 0) bound += kOneRounding * (std::abs(sum) + bound);  // of the addition
    }
  }
  return expected;
}

}  // namespace tenfold::kernels
