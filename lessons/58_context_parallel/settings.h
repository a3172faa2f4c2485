#pragma once
// The settings that lesson 58 has besides the GPT's, and its cases.

#include <cstdint>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/gpt.h"

namespace tenfold::inline lesson_58 {

/// The mesh's dimension of ranks that share the sequences.
inline constexpr const char* kContextParallel = "cp";

inline constexpr Setting<int64_t> kPrompt{"prompt", 0, "first tokens of each sequence that no loss is taken of"};

/// Targets of a batch that count. Throws c10::ValueError if none do.
inline int64_t targets_of(const GptOptions& options, int64_t prompt) {
  TORCH_CHECK_VALUE(prompt >= 0 && prompt < options.length, "setting prompt=", prompt, " is not 0 to ",
                    options.length - 1);
  return options.batch * (options.length - prompt);
}

/// One long sequence, so that most of the arithmetic is attention's. Characters keep the logits small.
inline std::vector<Assignment> long_sequence() {
  return {gpt::kLayers(2, 6, 12), gpt::kHeads(2, 8, 12), gpt::kLength(1024, 8192, 32768), gpt::kBatch(1),
          gpt::kTokens("characters")};
}

/// Short sequences, so that a message is for little arithmetic; and a prompt, of which not all ranks have equally much.
inline std::vector<Assignment> short_sequences() {
  return {gpt::kLayers(2),    gpt::kWidth(32),           gpt::kHeads(2), gpt::kLength(16, 64, 128), gpt::kBatch(4),
          kPrompt(5, 20, 40), gpt::kTokens("characters")};
}

/// The same on more ranks than it has heads.
inline std::vector<Assignment> few_heads() { return short_sequences(); }

/// What surveys count: an attention layer that eight ranks can share in either way.
inline std::vector<Assignment> survey_sizes() {
  return {gpt::kLayers(1), gpt::kWidth(32), gpt::kHeads(8), gpt::kLength(64), gpt::kBatch(2)};
}

}  // namespace tenfold::inline lesson_58
