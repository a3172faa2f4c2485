#pragma once
// What an expert's second product, its sum over a token's rows and its gradients should be, in float64, and how far
// from it rounding may lead.

#include <cmath>
#include <vector>

#include "kernels/grouped_combine/grouped_combine.h"
#include "kernels/grouped_gemm/grouped_gemm_reference.h"

namespace tenfold::kernels {

/// Matrices (height, width) one behind the other, each turned.
inline std::vector<double> each_transposed(const std::vector<double>& matrices, int64_t height, int64_t width) {
  std::vector<double> turned(matrices.size());
  for (size_t i = 0; i < matrices.size(); ++i) {
    const auto at = static_cast<int64_t>(i), matrix = at / (height * width), row = at / width % height;
    turned[static_cast<size_t>(matrix * height * width + at % width * height + row)] = matrices[i];
  }
  return turned;
}

/// grouped_combine()'s `out`, with weights (experts, depth, columns). `scales` may be empty. Every rung's bound: rung 0
/// rounds each row's result and the sum, rung 1 the sum alone, rung 2 each weighted result and each of its sums, of
/// which none is larger than the terms' magnitudes together.
inline Expected grouped_combine_reference(const std::vector<double>& rows, const std::vector<double>& weights,
                                          const std::vector<int>& offsets, const std::vector<int>& token_of,
                                          const std::vector<float>& scales, const CombineShape& shape,
                                          Rounding rounding, int rung) {
  const Rounding exact{0, 0}, of_row = rung == kCombineTwoPassRung ? rounding : exact;
  const Expected products = grouped_gemm_reference(rows, {}, weights, offsets, shape.depth, shape.columns, of_row);
  const auto count = static_cast<size_t>(shape.tokens * shape.columns);
  Expected expected(static_cast<int64_t>(count));
  std::vector<double> magnitudes(count), terms(count);
  for (int64_t row = 0; row < offsets.back(); ++row) {
    const double scale = scales.empty() ? 1 : scales[static_cast<size_t>(row)];
    for (int64_t column = 0; column < shape.columns; ++column) {
      const auto from = static_cast<size_t>(row * shape.columns + column),
                 to = static_cast<size_t>(token_of[static_cast<size_t>(row)] * shape.columns + column);
      expected.values[to] += scale * products.values[from];
      expected.bounds[to] += std::abs(scale) * products.bounds[from];
      magnitudes[to] += std::abs(scale * products.values[from]);
      terms[to] += 1;
    }
  }
  for (size_t i = 0; i < count; ++i) {
    double& bound = expected.bounds[i];
    // The scale's product and each sum, in float32; what they start from is no larger than this.
    const double size = magnitudes[i] + bound;
    bound += 2 * terms[i] * kFloatRounding.unit * size;
    const double roundings = rung == kCombinePairsRung ? 1 + terms[i] : 1;
    const double rounded = rung == kCombinePairsRung ? size : std::abs(expected.values[i]) + bound;
    // Each next rounding is of a sum that holds the errors of those before: 1 + unit, not 1.
    bound += roundings * (rounding.unit * rounded * (1 + roundings * rounding.unit) + rounding.least);
  }
  return expected;
}

/// What grouped_combine_backward() should write.
struct CombineGradients {
  Expected drows, dscales;
};

inline CombineGradients grouped_combine_backward_reference(
    const std::vector<double>& dout, const std::vector<double>& rows, const std::vector<double>& weights,
    const std::vector<int>& offsets, const std::vector<int>& token_of, const std::vector<float>& scales,
    const CombineShape& shape, Rounding rounding) {
  const Expected products = grouped_gemm_reference(dout, token_of, each_transposed(weights, shape.depth, shape.columns),
                                                   offsets, shape.columns, shape.depth, {0, 0});
  CombineGradients expected{products, Expected(offsets.back())};
  for (int64_t row = 0; row < offsets.back(); ++row) {
    const double scale = scales.empty() ? 1 : scales[static_cast<size_t>(row)];
    double magnitude = 0, &value = expected.dscales.values[static_cast<size_t>(row)],
           &bound = expected.dscales.bounds[static_cast<size_t>(row)];
    for (int64_t i = 0; i < shape.depth; ++i) {
      const auto at = static_cast<size_t>(row * shape.depth + i);
      value += products.values[at] * rows[at];
      bound += products.bounds[at] * std::abs(rows[at]);
      magnitude += (std::abs(products.values[at]) + products.bounds[at]) * std::abs(rows[at]);
      double &drow = expected.drows.values[at], &drow_bound = expected.drows.bounds[at];
      drow *= scale;
      drow_bound = drow_bound * std::abs(scale) + kFloatRounding.unit * std::abs(drow);
      drow_bound += rounding.unit * (std::abs(drow) + drow_bound) + rounding.least;
    }
    bound += 2 * static_cast<double>(shape.depth) * kFloatRounding.unit * magnitude + kFloatRounding.least;
  }
  return expected;
}

}  // namespace tenfold::kernels
