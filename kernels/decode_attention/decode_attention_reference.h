#pragma once
// decode_attention.h in float64.

#include <algorithm>

#include "decode_attention.h"
#include "kernels/expected.h"

namespace tenfold::kernels {

/// The arrays that are read, in float64, laid out as for rungs 0 to 5: a contiguous cache.
struct DecodeValues {
  std::vector<double> q, k, v;
};

/// Query head `head` (of all batch * heads) over the first `keys` keys of its cache. `type` is the rounding of the
/// result, `weights` of the weights before they are multiplied: float's on CUDA cores, the type's own on tensor cores.
inline void decode_head(Expected& expected, const DecodeValues& in, const DecodeShape& s, int64_t head, int64_t keys,
                        Rounding type, Rounding weights) {
  const int64_t width = s.head_dim;
  const int64_t row = (head / s.heads * s.kv_heads + head % s.heads / s.group()) * s.capacity;
  const double *q = in.q.data() + head * width, *k = in.k.data() + row * width, *v = in.v.data() + row * width;
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  std::vector<double> scores, errors;
  double largest = -std::numeric_limits<double>::infinity(), total = 0;
  for (int64_t key = 0; key < keys; ++key) {
    double product = 0, magnitude = 0;
    for (int64_t d = 0; d < width; ++d) {
      product += q[d] * k[key * width + d];
      magnitude += std::abs(q[d] * k[key * width + d]);
    }
    scores.push_back(product * scale);
    errors.push_back(scale * sum_error(width) * magnitude);
    largest = std::max(largest, scores.back());
  }
  for (const double score : scores) total += std::exp(score - largest);
  // An error of a score is a relative one of its weight, and of the sum that all are divided by. The scale, the
  // differences and the exponential round, too, each in proportion to a score or to what is taken off: once for the
  // weight, and once more where a largest score of a lane, a warp or a block is replaced.
  double error = sum_error(keys);
  for (size_t i = 0; i < scores.size(); ++i) {
    errors[i] += kFloatRounding.unit * (12 + 8 * (std::abs(scores[i]) + std::abs(largest)));
    error += std::exp(scores[i] - largest) / total * errors[i];
  }
  for (int64_t d = 0; d < width; ++d) {
    double sum = 0, wrong = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      const double weight = std::exp(scores[i] - largest) / total, value = v[static_cast<int64_t>(i) * width + d];
      sum += weight * value;
      wrong += std::abs(value) * (weight * (errors[i] + weights.unit + sum_error(keys)) + weights.least);
    }
    const auto at = static_cast<size_t>(head * width + d);
    expected.values[at] = sum;
    expected.bounds[at] = wrong + error * std::abs(sum) + type.unit * std::abs(sum) + type.least;
  }
}

/// decode_attention() for sequences of these lengths.
inline Expected decode_attention_reference(const DecodeValues& in, const std::vector<int>& lengths,
                                           const DecodeShape& s, Rounding type, Rounding weights) {
  Expected expected(s.batch * s.heads * s.head_dim);
  for (int64_t head = 0; head < s.batch * s.heads; ++head) {
    const int64_t keys = std::clamp<int64_t>(lengths[static_cast<size_t>(head / s.heads)], 0, s.capacity);
    decode_head(expected, in, s, head, keys, type, weights);
  }
  return expected;
}

/// A pool of pages with the keys of a contiguous cache, (batch, kv_heads, capacity, head_dim), in the places that
/// `pages` names; what no key fills keeps the pool's own values. `Cache` and `Pool` are indexed by value.
template <class Pool, class Cache>
void fill_pages(const Pool& pool, const Cache& cache, const std::vector<int>& pages, const DecodeShape& s) {
  for (int64_t sequence = 0; sequence < s.batch; ++sequence) {
    for (int64_t kv_head = 0; kv_head < s.kv_heads; ++kv_head) {
      for (int64_t key = 0; key < s.capacity; ++key) {
        const int64_t page = pages[static_cast<size_t>(sequence * decode_pages(s.capacity) + key / kDecodePageKeys)];
        const int64_t to = (page * s.kv_heads + kv_head) * kDecodePageKeys + key % kDecodePageKeys;
        const int64_t from = (sequence * s.kv_heads + kv_head) * s.capacity + key;
        for (int64_t d = 0; d < s.head_dim; ++d) pool[to * s.head_dim + d] = cache[from * s.head_dim + d];
      }
    }
  }
}

/// A page table, batch * decode_pages(capacity), in which a sequence's neighbouring pages lie far apart in the pool.
inline std::vector<int> scattered_pages(const DecodeShape& s) {
  const int64_t count = s.batch * decode_pages(s.capacity);
  std::vector<int> pages;
  int64_t step = 7919;  // a prime: all places are used once, if it does not divide the count
  if (count % step == 0) step = 7907;
  for (int64_t i = 0; i < count; ++i) pages.push_back(static_cast<int>(i * step % count));
  return pages;
}

}  // namespace tenfold::kernels
