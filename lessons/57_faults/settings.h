#pragma once
// The settings that lesson 57 has besides those of the GPT and the buckets' size of lesson 52.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/measure/trial.h"
#include "common/models/gpt.h"
#include "lessons/52_ddp/settings.h"

namespace tenfold::inline lesson_57 {

inline constexpr Setting<int64_t> kEvery{"every", {2, 8, 8}, "updates between two checkpoints, and of one step"};

/// To the GPT's own come the gradients in buckets, and the sampler's order, 8 bytes for each of the rank's sequences:
/// of a long text in short sequences it is larger than a small model.
inline int64_t saved_most_bytes(const Trial& trial) {
  const GptOptions options = gpt_options(trial);
  const int64_t tokens = options.tokens == Encoding::gpt2 ? 1'565'959 : 5'057'198;  // of all works; some are held out
  const int64_t sequences = tokens / options.length / trial.world_size;
  const int64_t largest = 4 * options.width * std::max(options.vocabulary(), 4 * options.width);
  const int64_t bucket = std::max(largest, trial.get(kBucketKib) << 10);
  return gpt_most_bytes(trial) + std::min(parameter_bytes(options), bucket) + 8 * sequences;
}

/// A small model: what it forgets shows as in a large one.
inline std::vector<Assignment> small_model() {
  return {kEvery(2),       gpt::kBatch(4), gpt::kLength(16),          gpt::kLayers(1),
          gpt::kWidth(32), gpt::kHeads(2), gpt::kTokens("characters")};
}

/// Many parameters and few tokens, saved after every update: a checkpoint takes about as long as what it saves.
inline std::vector<Assignment> states_every_update() {
  return {kEvery(1),       gpt::kBatch(4, 8, 8),        gpt::kLength(8),
          gpt::kLayers(4), gpt::kWidth(128, 512, 1024), gpt::kHeads(4, 8, 16)};
}

}  // namespace tenfold::inline lesson_57
