#pragma once
// How a step's texts become rectangles: one or several micro-batches, each padded to some length.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "packing.h"

namespace tenfold::inline lesson_15 {

/// Texts that are padded to `length` together.
struct MicroBatch {
  std::vector<TextIds> texts;
  int64_t length = 0;
  int64_t rows() const { return static_cast<int64_t>(texts.size()) * length; }  ///< with padding
  int64_t tokens() const {
    int64_t sum = 0;
    for (const TextIds text : texts) sum += static_cast<int64_t>(text.size()) - 1;
    return sum;
  }
};

struct PlanSettings {
  int64_t longest = 0;  ///< tokens of the longest text that may ever come
  int64_t buckets = 1;
};

/// Splits a step's texts, of which there must be at least one.
using Plan = std::vector<MicroBatch> (*)(std::vector<TextIds> texts, const PlanSettings& settings);

inline int64_t tokens_of_longest(const std::vector<TextIds>& texts) {
  return static_cast<int64_t>(std::max_element(texts.begin(), texts.end(), shorter)->size()) - 1;
}

/// Every batch has the same shape, whatever comes.
inline std::vector<MicroBatch> pad_to_data_set(std::vector<TextIds> texts, const PlanSettings& settings) {
  return {{std::move(texts), settings.longest}};
}

/// As long as the longest text of the step.
inline std::vector<MicroBatch> pad_to_batch(std::vector<TextIds> texts, const PlanSettings&) {
  const int64_t length = tokens_of_longest(texts);
  return {{std::move(texts), length}};
}

/// Texts of like length together: sorted, and cut into `buckets` pieces of about as many texts, each padded to its own
/// longest.
inline std::vector<MicroBatch> pad_in_buckets(std::vector<TextIds> texts, const PlanSettings& settings) {
  std::sort(texts.begin(), texts.end(), shorter);
  const auto count = static_cast<int64_t>(texts.size()), buckets = std::clamp<int64_t>(settings.buckets, 1, count);
  std::vector<MicroBatch> plan;
  for (int64_t i = 0; i < buckets; ++i) {
    std::vector<TextIds> part(texts.begin() + i * count / buckets, texts.begin() + (i + 1) * count / buckets);
    const int64_t length = tokens_of_longest(part);
    plan.push_back({std::move(part), length});
  }
  return plan;
}

}  // namespace tenfold::inline lesson_15
