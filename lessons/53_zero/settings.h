#pragma once
// The settings that lesson 53 has besides those of the GPT and of lesson 52.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "lessons/52_ddp/settings.h"

namespace tenfold::inline lesson_53 {

inline constexpr Setting<double> kAdamWLearningRate{"adamw_learning_rate", 1e-3, "of AdamW"};
inline constexpr Setting<double> kMaxNorm{"max_norm", 0.0, "norm that gradients are clipped to; 0: they are not"};
inline constexpr Setting<bool> kFrozen{"frozen", false, "whether the blocks are frozen"};
inline constexpr Setting<std::string> kPrecision{
    "precision", "float32", "type of the parameters that the model computes with", {"float32", "bfloat16"}};

/// From a Trial or a Counted: whether the model computes with 16-bit copies of parameters that stay in 32 bits.
template <class Source>
bool in_16_bits(const Source& source) {
  return source.get(kPrecision) == "bfloat16";
}

/// AdamW for the parameters, or for shards of them: two averages of 32 bits for each value.
/// The bias of attention's keys has a gradient of zero but for rounding. Epsilon is above that rounding: with 1e-8
/// AdamW would make steps of it, which are other ones on every number of ranks.
inline torch::optim::AdamWOptions adamw_options(const Trial& trial) {
  return torch::optim::AdamWOptions(trial.get(kAdamWLearningRate)).eps(1e-6).weight_decay(1e-2);
}

/// Many layers of some width and few tokens: parameters, gradients and optimizer state are nearly all of the memory,
/// and a block is a small part of them.
inline std::vector<Assignment> states_fill() {
  return {gpt::kLayers(8, 12, 12), gpt::kWidth(128, 768, 1536), gpt::kHeads(4, 12, 12), gpt::kLength(8, 64, 64),
          gpt::kBatch(8)};
}

/// The same, computed in 16 bits.
inline std::vector<Assignment> states_fill_in_16_bits() {
  std::vector<Assignment> settings = states_fill();
  settings.push_back(kPrecision("bfloat16"));
  return settings;
}

/// A narrow model and many tokens: activations are nearly all.
inline std::vector<Assignment> activations_fill() {
  return {gpt::kLayers(2),         gpt::kWidth(16, 64, 64),   gpt::kHeads(2), gpt::kLength(64, 512, 512),
          gpt::kBatch(64, 32, 64), gpt::kTokens("characters")};
}

/// A model and a batch so small that a message takes longer than what it is for.
inline std::vector<Assignment> tiny_model() {
  return {gpt::kBatch(8), gpt::kLength(8), gpt::kLayers(1), gpt::kWidth(16), gpt::kHeads(2)};
}

/// Of one rank that has the whole batch. To the workload's formula, which has one momentum, come AdamW's second
/// average, gradients that are alive while later micro-batches run, the two temporaries of the largest update, and a
/// bucket; in 16 bits copies of the parameters and their gradients, while activations are half of what the formula has.
inline int64_t zero_most_bytes(const Trial& trial) {
  GptOptions options = gpt_options(trial);
  const int64_t micro_batches = trial.get(kMicroBatches);
  options.batch = std::max<int64_t>(1, options.batch / micro_batches);
  const int64_t frozen = trial.get(kFrozen) ? options.layers * block_parameter_bytes(options.width) : 0;
  const int64_t trainable = parameter_bytes(options) - frozen;
  const int64_t largest = 4 * options.width * std::max(options.vocabulary(), 4 * options.width);
  const int64_t copies = in_16_bits(trial) ? parameter_bytes(options) : 0;
  return step_peak_bytes(options) - frozen + (micro_batches > 1 ? 2 : 1) * trainable + 2 * largest + copies +
         std::min(trainable, trial.get(kBucketKib) << 10);
}

}  // namespace tenfold::inline lesson_53
