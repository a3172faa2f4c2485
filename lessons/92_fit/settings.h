#pragma once
// Settings of lesson 92, and the sizes that its parts train.

#include <vector>

// Before lesson 33's settings: both lessons have an adamw_settings(), and each header means its own.
#include "lessons/34_offload/offload_training.h"

#include "common/harness/lesson.h"
#include "common/models/affordable_gpt.h"
#include "common/models/gpt.h"
#include "lessons/30_gradient_accumulation/epoch.h"
#include "lessons/33_optimizer_memory/settings.h"
#include "lessons/44_cross_entropy/prediction.h"
#include "levers.h"

namespace tenfold::inline lesson_92 {

inline constexpr Setting<int64_t> kBudget{"budget", 50, "memory of the budget, in % of what the baseline needs"};
inline constexpr Setting<int64_t> kCardMebibytes{"card", 12, "MiB that stand for a card's memory on a CPU"};

/// Model states and activations each take a good part of the memory, so that every lever has something to free. The
/// host updates all parameters within a second.
inline std::vector<Assignment> does_not_fit() {
  return {gpt::kLayers(2, 6, 6),      gpt::kWidth(96, 512, 512), gpt::kHeads(4, 8, 8),
          gpt::kLength(32, 512, 512), gpt::kBatch(8, 4, 4),      gpt::kTokens("characters", "gpt2", "gpt2")};
}

/// Few tokens for many parameters: what a batch keeps is nearly nothing, and autocast would halve nothing but add
/// copies of the weights.
inline std::vector<Assignment> few_tokens() {
  return {gpt::kLayers(2, 4, 4), gpt::kWidth(128, 512, 512), gpt::kHeads(4, 8, 8), gpt::kLength(16, 64, 64),
          gpt::kBatch(4),        gpt::kTokens("characters"), kAutocast(false)};
}

/// Layers as wide as large models have them: how many fit is what is asked.
inline std::vector<Assignment> wide_layers() {
  return {gpt::kWidth(64, 2048, 4096), gpt::kHeads(4, 16, 32), gpt::kLength(32, 1024, 2048), gpt::kBatch(4, 2, 2),
          kMicroBatches(4, 2, 2)};
}

/// Short sequences on a CPU, and fewer updates.
inline std::vector<Assignment> many_updates_of_tokens() {
  return gpt::affordable({gpt::kLength(16, 512, 512), lesson_33::kUpdates(40, 100, 100)});
}

}  // namespace tenfold::inline lesson_92
