#pragma once
// flash_attention.h in float64.

#include <algorithm>

#include "flash_attention.h"
#include "kernels/expected.h"

namespace tenfold::kernels {

/// The arrays that attention reads, in float64, laid out as the kernels' are.
struct AttentionValues {
  std::vector<double> q, k, v;
};

/// What a kernel should write. `weights` is the rounding of the weights before they are multiplied: float's on CUDA
/// cores, the type's own on tensor cores.
struct AttentionExpected {
  Expected out, logsumexp;
};

/// One row of scores and what is known of its rounding.
struct AttentionRow {
  std::vector<double> scores, errors;  ///< of the keys that are seen; errors: absolute, of float arithmetic
  double logsumexp = 0;

  AttentionRow(const double* q, const double* k, const AttentionShape& s, int64_t query) {
    const int64_t seen = s.causal ? std::min(s.keys, query + 1) : s.keys;
    const double scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t key = 0; key < seen; ++key) {
      double product = 0, magnitude = 0;
      for (int64_t d = 0; d < s.head_dim; ++d) {
        product += q[d] * k[key * s.head_dim + d];
        magnitude += std::abs(q[d] * k[key * s.head_dim + d]);
      }
      scores.push_back(product * scale);
      errors.push_back(scale * sum_error(s.head_dim) * magnitude);
      largest = std::max(largest, scores.back());
    }
    for (const double score : scores) sum += std::exp(score - largest);
    logsumexp = largest + std::log(sum);
    // The scale, log2(e), differences and the exponential itself round too, each in proportion to a score or to what is
    // taken off.
    for (size_t j = 0; j < scores.size(); ++j)
      errors[j] += kFloatRounding.unit * (8 + 6 * (std::abs(scores[j]) + std::abs(largest)));
  }
  double weight(size_t key) const { return std::exp(scores[key] - logsumexp); }
};

/// flash_attention(). An error in a score is a relative one of its weight, and of the sum that all are divided by.
inline AttentionExpected flash_attention_reference(const AttentionValues& in, const AttentionShape& s, Rounding type,
                                                   Rounding weights) {
  const int64_t heads = s.batch * s.heads, width = s.head_dim;
  AttentionExpected expected{Expected(heads * s.queries * width), Expected(heads * s.queries)};
  for (int64_t row = 0; row < heads * s.queries; ++row) {
    const int64_t head = row / s.queries, of_keys = head * s.keys * width;
    const double* v = in.v.data() + of_keys;
    const AttentionRow scores(in.q.data() + row * width, in.k.data() + of_keys, s, row % s.queries);
    const auto count = static_cast<int64_t>(scores.scores.size());
    double error = sum_error(count);
    for (size_t key = 0; key < scores.scores.size(); ++key) error += scores.weight(key) * scores.errors[key];
    const auto i = static_cast<size_t>(row);
    expected.logsumexp.values[i] = scores.logsumexp;
    expected.logsumexp.bounds[i] = error + kFloatRounding.unit * (4 + 4 * std::abs(scores.logsumexp));
    for (int64_t d = 0; d < width; ++d) {
      double sum = 0, wrong = 0;
      for (size_t key = 0; key < scores.scores.size(); ++key) {
        const double value = v[static_cast<int64_t>(key) * width + d], weight = scores.weight(key);
        sum += weight * value;
        wrong += std::abs(value) * (weight * (scores.errors[key] + weights.unit + sum_error(count)) + weights.least);
      }
      expected.out.values[i * width + d] = sum;
      expected.out.bounds[i * width + d] = wrong + error * std::abs(sum) + type.unit * std::abs(sum) + type.least;
    }
  }
  return expected;
}

struct AttentionGradients {
  Expected q, k, v;
};

/// flash_attention_backward() for `grad_out`, `out` (as the kernel is given it) and a logsumexp of float. Weights below
/// `least_weight` may be 0: 2^-126 where exp2_approx() makes them, on tensor cores.
inline AttentionGradients flash_attention_backward_reference(const std::vector<double>& grad_out,
                                                             const AttentionValues& in, const std::vector<double>& out,
                                                             const AttentionShape& s, Rounding type, Rounding weights,
                                                             double least_weight = 0) {
  const int64_t heads = s.batch * s.heads, width = s.head_dim;
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  AttentionGradients grad{Expected(heads * s.queries * width), Expected(heads * s.keys * width),
                          Expected(heads * s.keys * width)};
  const auto add = [](Expected& to, int64_t i, double value, double bound) {
    to.values[static_cast<size_t>(i)] += value;
    to.bounds[static_cast<size_t>(i)] += bound;
  };
  for (int64_t row = 0; row < heads * s.queries; ++row) {
    const int64_t head = row / s.queries, of_keys = head * s.keys * width;
    const double *q = in.q.data() + row * width, *g = grad_out.data() + row * width, *o = out.data() + row * width;
    const AttentionRow scores(q, in.k.data() + of_keys, s, row % s.queries);
    double dot = 0, dot_error = 0;
    for (int64_t d = 0; d < width; ++d) {
      dot += g[d] * o[d];
      dot_error += sum_error(width) * std::abs(g[d] * o[d]);
    }
    for (size_t key = 0; key < scores.scores.size(); ++key) {
      const int64_t of_key = of_keys + static_cast<int64_t>(key) * width;
      const double *k = in.k.data() + of_key, *v = in.v.data() + of_key;
      double dp = 0, dp_error = dot_error;
      for (int64_t d = 0; d < width; ++d) {
        dp += g[d] * v[d];
        dp_error += sum_error(width) * std::abs(g[d] * v[d]);
      }
      const double p = scores.weight(key), ds = p * (dp - dot);
      const double p_error =
          scores.errors[key] + kFloatRounding.unit * (4 + 4 * std::abs(scores.logsumexp));  // relative
      const double ds_error = p * (p_error * std::abs(dp - dot) + dp_error) + least_weight * std::abs(dp - dot) +
                              (weights.unit + 4 * kFloatRounding.unit) * std::abs(ds) + weights.least;
      for (int64_t d = 0; d < width; ++d) {
        add(grad.v, of_key + d, p * g[d],
            (p * (p_error + weights.unit + sum_error(s.queries)) + weights.least + least_weight) * std::abs(g[d]));
        add(grad.k, of_key + d, scale * ds * q[d],
            scale * (ds_error + sum_error(s.queries) * std::abs(ds)) * std::abs(q[d]));
        add(grad.q, row * width + d, scale * ds * k[d],
            scale * (ds_error + sum_error(s.keys) * std::abs(ds)) * std::abs(k[d]));
      }
    }
  }
  for (Expected* one : {&grad.q, &grad.k, &grad.v}) {
    for (size_t i = 0; i < one->values.size(); ++i) one->bounds[i] += type.unit * std::abs(one->values[i]) + type.least;
  }
  return grad;
}

}  // namespace tenfold::kernels
