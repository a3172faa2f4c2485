#pragma once
// embedding.h in float64, and the order that its backward pass needs.

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/expected.h"

namespace tenfold::kernels {

/// Ids ascending, and the tokens that they belong to; equal ids keep their tokens' order.
struct SortedIds {
  explicit SortedIds(const std::vector<int64_t>& of_tokens) : ids(of_tokens.size()), order(of_tokens.size()) {
    const auto id = [&](int64_t token) { return of_tokens[static_cast<size_t>(token)]; };
    std::iota(order.begin(), order.end(), 0);
    // A stable sort, by index where the ids are equal.
    std::sort(order.begin(), order.end(),
              [&](int64_t a, int64_t b) { return std::pair(id(a), a) < std::pair(id(b), b); });
    std::transform(order.begin(), order.end(), ids.begin(), id);
  }
  std::vector<int64_t> ids, order;
};

/// embedding() from `weight` (vocabulary, width): no error is allowed at all.
inline Expected embedding_reference(const std::vector<double>& weight, const std::vector<int64_t>& ids, int64_t width,
                                    int64_t vocabulary) {
  Expected expected(static_cast<int64_t>(ids.size()) * width);
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const int64_t id = ids[i / static_cast<size_t>(width)], column = static_cast<int64_t>(i) % width;
    const bool known = id >= 0 && id < vocabulary;
    expected.values[i] =
        known ? weight[static_cast<size_t>(id * width + column)] : std::numeric_limits<double>::quiet_NaN();
  }
  return expected;
}

/// embedding_backward() of `grad_out` (tokens, width), added to `before` (vocabulary, width). A row without tokens must
/// keep every bit.
inline Expected embedding_backward_reference(const std::vector<double>& before, const std::vector<double>& grad_out,
                                             const std::vector<int64_t>& ids, int64_t width, int64_t vocabulary,
                                             Rounding type) {
  Expected expected(vocabulary * width);
  expected.values = before;
  std::vector<double> magnitude(before.size());
  std::vector<int64_t> uses(static_cast<size_t>(vocabulary));
  for (size_t i = 0; i < before.size(); ++i) magnitude[i] = std::abs(before[i]);
  for (size_t token = 0; token < ids.size(); ++token) {
    if (ids[token] < 0 || ids[token] >= vocabulary) continue;
    ++uses[static_cast<size_t>(ids[token])];
    for (int64_t c = 0; c < width; ++c) {
      const auto to = static_cast<size_t>(ids[token] * width + c);
      const double gradient = grad_out[token * static_cast<size_t>(width) + static_cast<size_t>(c)];
      expected.values[to] += gradient;
      magnitude[to] += std::abs(gradient);
    }
  }
  for (size_t i = 0; i < before.size(); ++i) {
    const int64_t used = uses[i / static_cast<size_t>(width)];
    if (used > 0)
      expected.bounds[i] = type.least + type.unit * std::abs(expected.values[i]) + sum_error(used) * magnitude[i];
  }
  return expected;
}

}  // namespace tenfold::kernels
