#pragma once
// Settings of lesson 33, and the sizes that its parts train.

#include <cstdint>
#include <vector>

#include "adafactor.h"
#include "adamw.h"
#include "common/harness/lesson.h"
#include "common/models/affordable_gpt.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"
#include "eight_bit_codes.h"

namespace tenfold::inline lesson_33 {

inline constexpr Setting<double> kAdamWLearningRate{"adamw_learning_rate", {2e-3, 1e-3, 1e-3}, "of AdamW and Adam"};
inline constexpr Setting<double> kWeightDecay{"weight_decay", 1e-2, "of AdamW, taken from the parameter itself"};
inline constexpr Setting<double> kAdafactorRate{"adafactor_rate", 0.03, "of Adafactor, relative to a tensor's size"};
inline constexpr Setting<int64_t> kUpdates{"updates", 100, "updates of a training"};
inline constexpr Setting<int64_t> kChunk{
    "chunk", {1 << 16, 1 << 22, 1 << 24}, "most values of an average that are in 32 bits at a time", {}, kBlock};

inline AdamWSettings adamw_settings(const Trial& trial) {
  return {.learning_rate = trial.get(kAdamWLearningRate), .weight_decay = trial.get(kWeightDecay)};
}
inline AdafactorSettings adafactor_settings(const Trial& trial) { return {.rate = trial.get(kAdafactorRate)}; }

/// Wide layers and few tokens: parameters, gradients and state are nearly all of the memory.
inline std::vector<Assignment> states_fill() {
  return {gpt::kLayers(2, 12, 12), gpt::kWidth(256, 768, 1536), gpt::kHeads(4, 12, 12), gpt::kLength(16, 64, 64),
          gpt::kBatch(1)};
}

/// Twice as many updates, each as small as late in a long training: weights of 16 bits lose them.
inline std::vector<Assignment> many_small_updates() {
  return gpt::affordable({gpt::kBatch(4, 16, 16), kAdamWLearningRate(3e-4, 1e-4, 1e-4), kUpdates(200)});
}

}  // namespace tenfold::inline lesson_33
