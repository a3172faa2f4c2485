#pragma once
// What the products of a mixture of experts should be, in float64, and how far from it rounding may lead.

#include <vector>

#include "kernels/grouped_gemm/grouped_gemm.h"
#include "kernels/hgemm/hgemm_reference.h"

namespace tenfold::kernels {

/// Rows 0 to offsets.back() - 1 of grouped_gemm()'s `out`; `row_of` may be empty. Each expert's product by itself is
/// one of hgemm.
inline Expected grouped_gemm_reference(const std::vector<double>& x, const std::vector<int>& row_of,
                                       const std::vector<double>& weights, const std::vector<int>& offsets,
                                       int64_t depth, int64_t columns, Rounding rounding) {
  Expected expected(int64_t{offsets.back()} * columns);
  for (size_t expert = 0; expert + 1 < offsets.size(); ++expert) {
    std::vector<double> rows;
    for (int t = offsets[expert]; t < offsets[expert + 1]; ++t) {
      const auto from = x.begin() + (row_of.empty() ? t : row_of[static_cast<size_t>(t)]) * depth;
      rows.insert(rows.end(), from, from + depth);
    }
    const auto weight = weights.begin() + static_cast<int64_t>(expert) * depth * columns;
    const Expected own = hgemm_reference(rows, {weight, weight + depth * columns},
                                         offsets[expert + 1] - offsets[expert], columns, depth, rounding);
    const int64_t at = offsets[expert] * columns;
    std::copy(own.values.begin(), own.values.end(), expected.values.begin() + at);
    std::copy(own.bounds.begin(), own.bounds.end(), expected.bounds.begin() + at);
  }
  return expected;
}

/// grouped_gemm_weights()' `dweights`: each expert's is a product of hgemm, rows are its inner dimension.
inline Expected grouped_gemm_weights_reference(const std::vector<double>& x, const std::vector<int>& row_of,
                                               const std::vector<double>& dout, const std::vector<int>& offsets,
                                               int64_t depth, int64_t columns, Rounding rounding) {
  const auto experts = static_cast<int64_t>(offsets.size()) - 1, values = depth * columns;
  Expected expected(experts * values);
  for (int64_t expert = 0; expert < experts; ++expert) {
    const int64_t begin = offsets[static_cast<size_t>(expert)],
                  count = offsets[static_cast<size_t>(expert) + 1] - begin;
    std::vector<double> transposed(static_cast<size_t>(depth * count));
    for (int64_t t = 0; t < count; ++t) {
      const int64_t from = row_of.empty() ? begin + t : row_of[static_cast<size_t>(begin + t)];
      for (int64_t i = 0; i < depth; ++i)
        transposed[static_cast<size_t>(i * count + t)] = x[static_cast<size_t>(from * depth + i)];
    }
    const std::vector<double> own(dout.begin() + begin * columns, dout.begin() + (begin + count) * columns);
    const Expected product = hgemm_reference(transposed, own, depth, columns, count, rounding);
    std::copy(product.values.begin(), product.values.end(), expected.values.begin() + expert * values);
    std::copy(product.bounds.begin(), product.bounds.end(), expected.bounds.begin() + expert * values);
  }
  return expected;
}

}  // namespace tenfold::kernels
