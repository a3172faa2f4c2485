#pragma once
// The settings that lesson 54 has besides the GPT's, and what else its baseline needs.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/gpt.h"

namespace tenfold::inline lesson_54 {

inline constexpr Setting<int64_t> kVocabulary{"vocabulary", 0, "classes of the embedding and the head; 0: the model's"};

inline constexpr Setting<int64_t> kDataRanks{"data_ranks", 1, "ranks along \"dp\", which share the batch"};

inline constexpr Setting<double> kMaxNorm{"max_norm", 0.0, "norm that gradients are clipped to; 0: they are not"};

/// What the trial's model has.
inline int64_t vocabulary_of(const GptOptions& options, int64_t setting) {
  TORCH_CHECK_VALUE(setting >= 0 && setting <= options.vocabulary(), "setting vocabulary=", setting, " is not 0 to ",
                    options.vocabulary());
  return setting > 0 ? setting : options.vocabulary();
}

/// Wide layers and few tokens: much arithmetic for each byte that is sent.
inline std::vector<Assignment> wide_model() {
  return {gpt::kLayers(2, 4, 6), gpt::kWidth(256, 1024, 1536), gpt::kHeads(8, 16, 16), gpt::kLength(16, 256, 512)};
}

/// Narrow layers, so that each byte that is sent is for little arithmetic; a number of classes that is odd; and
/// gradients that are clipped.
inline std::vector<Assignment> narrow_model() {
  return {gpt::kLayers(2),  gpt::kWidth(32),
          gpt::kHeads(4),   gpt::kLength(16, 64, 128),
          kVocabulary(125), gpt::kTokens("characters"),
          kMaxNorm(0.1)};
}

/// The same, and the batch is shared by two pairs of ranks that share the layers.
inline std::vector<Assignment> on_two_by_two() {
  std::vector<Assignment> settings = narrow_model();
  settings.push_back(kDataRanks(2));
  return settings;
}

/// What surveys count: eight ranks divide it, but for the vocabulary.
inline std::vector<Assignment> survey_sizes() {
  return {gpt::kLayers(2),  gpt::kWidth(64),           gpt::kHeads(8), gpt::kLength(16), gpt::kBatch(4),
          kVocabulary(125), gpt::kTokens("characters")};
}

}  // namespace tenfold::inline lesson_54
