#pragma once
// Settings of lesson 35, and the sizes that its parts have.

#include <cstdint>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/affordable_gpt.h"
#include "common/models/convnet.h"
#include "common/models/gpt.h"

namespace tenfold::inline lesson_35 {

inline constexpr Setting<int64_t> kUpdates{"updates", 100, "updates of a training"};
inline constexpr Setting<int64_t> kRowsAtATime{
    "rows_at_a_time", {256, 1024, 2048}, "rows of a weight in 32 bits at a time"};

/// A GPT whose weights are too many for the caches, and which reads one token.
inline std::vector<Assignment> one_token() {
  return {gpt::kLayers(1, 2, 2), gpt::kWidth(1024, 1024, 2048), gpt::kHeads(16, 16, 16), gpt::kLength(1),
          gpt::kBatch(1)};
}

/// 200 tokens at a time, of a smaller one on a CPU, where each step takes as many times longer.
inline std::vector<Assignment> many_tokens() {
  return {gpt::kLayers(1, 2, 2), gpt::kWidth(512, 1024, 2048), gpt::kHeads(8, 16, 16), gpt::kLength(200),
          gpt::kBatch(1)};
}

inline std::vector<Assignment> trained_convnet() {
  return {convnet::kBatch(32, 512, 512), convnet::kChannels(8, 32, 64)};
}

}  // namespace tenfold::inline lesson_35
