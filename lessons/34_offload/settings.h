#pragma once
// Settings of lesson 34, and the sizes that its cases train.

#include <cstdint>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "common/models/precision.h"
#include "kernels/adamw/adamw.h"

namespace tenfold::inline lesson_34 {

inline constexpr Setting<double> kAdamWLearningRate{"adamw_learning_rate", 1e-3, "of AdamW"};
inline constexpr Setting<int64_t> kLeastBytes{
    "least_bytes", {1 << 14, 1 << 20, 1 << 22}, "saved tensors of fewer bytes stay on the device"};
inline constexpr Setting<int64_t> kStay{
    "stay", 1, "blocks, the last ones, whose activations stay on the device", {}, 0};

inline kernels::AdamWSettings adamw_settings(const Trial& trial) {
  return {.learning_rate = trial.get(kAdamWLearningRate)};
}

/// Wide layers and many tokens: a block computes for as long as its activations travel, or longer.
inline std::vector<Assignment> activations_fill() {
  return {gpt::kLayers(6),       gpt::kWidth(128, 1536, 4096), gpt::kHeads(4, 12, 16), gpt::kLength(64, 512, 1024),
          gpt::kBatch(4, 8, 16), gpt::kTokens("characters")};
}

/// The same under autocast: about half the bytes, and on a GPU a fraction of the time to hide them behind. Smaller on a
/// CPU, which may emulate bfloat16.
inline std::vector<Assignment> activations_in_16_bits() {
  return {gpt::kLayers(3, 6, 6), gpt::kWidth(64, 1536, 4096), gpt::kHeads(4, 12, 16), gpt::kLength(64, 512, 1024),
          gpt::kBatch(2, 8, 16), gpt::kTokens("characters"),  kPrecision("bfloat16")};
}

/// Few tokens: parameters, gradients and averages are nearly all of the memory. Small enough for the host to update
/// within a second.
inline std::vector<Assignment> states_fill() {
  return {gpt::kLayers(4, 8, 8),
          gpt::kWidth(128, 512, 512),
          gpt::kHeads(4, 8, 8),
          gpt::kLength(16, 64, 64),
          gpt::kBatch(1),
          gpt::kTokens("characters"),
          kLeastBytes(1 << 20, 1 << 20, 1 << 22)};
}

}  // namespace tenfold::inline lesson_34
