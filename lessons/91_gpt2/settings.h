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
inline constexpr Setting<int64_t> kLayers{"layers", {4, 6, 12}, "transformer blocks"};
inline constexpr Setting<int64_t> kWidth{"width", {32, 512, 768}, "features of a token"};
inline constexpr Setting<int64_t> kHeads{"heads", {4, 8, 12}, "attention heads"};
inline constexpr Setting<int64_t> kLength{"length", {32, 512, 1024}, "tokens of a sequence"};
inline constexpr Setting<int64_t> kBatch{"batch", {1, 8, 16}, "sequences in a batch"};
inline constexpr Setting<std::string> kTokens{"tokens", "gpt2", "what the text is cut into", {"characters", "gpt2"}};
}  // namespace gpt2

inline constexpr Setting<int64_t> kPadTo{"pad_to", 64, "the padded vocabulary is a multiple of this"};
inline constexpr Setting<double> kAdamWLearningRate{"adamw_learning_rate", 6e-4, "of AdamW"};
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

}  // namespace tenfold::inline lesson_91
