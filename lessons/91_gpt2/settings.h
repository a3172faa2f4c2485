#pragma once
// Settings of lesson 91, and its workload: GPT-2 on Shakespeare.

#include <cstdint>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/token_stream.h"
#include "gpt2.h"

namespace tenfold::inline lesson_91 {

namespace gpt2 {
// On 80 GB: the smallest published GPT-2. On a CPU nearly all of the step is the head, as its vocabulary is the same.
inline constexpr Setting<int64_t> kLayers{"layers", {2, 6, 12}, "transformer blocks"};
inline constexpr Setting<int64_t> kWidth{"width", {16, 512, 768}, "features of a token"};
inline constexpr Setting<int64_t> kHeads{"heads", {2, 8, 12}, "attention heads"};
inline constexpr Setting<int64_t> kLength{"length", {32, 512, 1024}, "tokens of a sequence"};
inline constexpr Setting<int64_t> kBatch{"batch", {1, 8, 16}, "sequences in a batch"};
inline constexpr Setting<std::string> kTokens{"tokens", "gpt2", "what the text is cut into", {"characters", "gpt2"}};
}  // namespace gpt2

inline constexpr Setting<int64_t> kPadTo{"pad_to", 64, "the padded vocabulary is a multiple of this"};
inline constexpr Setting<double> kAdamWLearningRate{"adamw_learning_rate", 6e-4, "of AdamW"};
inline constexpr Setting<int64_t> kMicroBatches{"micro_batches", 4, "that accumulation processes a batch in"};
inline constexpr Setting<int64_t> kUpdates{"updates", 200, "of a training to the end"};
inline constexpr Setting<bool> kKeepStart{"keep_start", false, "the first weights are also written to a file"};

/// As the trial's settings have them, without padding.
inline Gpt2Options gpt2_options(const Trial& trial) {
  return {.layers = trial.get(gpt2::kLayers),
          .heads = trial.get(gpt2::kHeads),
          .width = trial.get(gpt2::kWidth),
          .length = trial.get(gpt2::kLength),
          .vocabulary = vocabulary_size(encoding_named(trial.get(gpt2::kTokens)))};
}

/// A model so small that a mistake is found in a second. A file has its first weights.
inline std::vector<Assignment> small_model_and_file() {
  return {gpt2::kLayers(2),  gpt2::kWidth(32), gpt2::kHeads(4),
          gpt2::kLength(32), gpt2::kBatch(4),  gpt2::kTokens("characters"),
          kPadTo(96),        kKeepStart(true)};
}

/// A batch whose activations are what a step's memory goes into: of characters on a CPU, of GPT-2 on a GPU.
inline std::vector<Assignment> large_batch() {
  return {gpt2::kLayers(4, 6, 12), gpt2::kWidth(32, 512, 768), gpt2::kLength(64, 512, 1024), gpt2::kBatch(8, 8, 32),
          gpt2::kTokens("characters", "gpt2", "gpt2")};
}

/// A model that learns to spell in seconds. With a rate three times as high the loss stands still for a while, and
/// where it leaves that is chance: no training to compare by.
inline std::vector<Assignment> small_model_to_the_end() {
  return {gpt2::kLayers(2),  gpt2::kWidth(64),        gpt2::kHeads(4),
          gpt2::kLength(64), gpt2::kBatch(8),         gpt2::kTokens("characters"),
          kPadTo(96),        kAdamWLearningRate(1e-3)};
}

}  // namespace tenfold::inline lesson_91
