#pragma once
// The settings that lesson 59 has besides the GPT's.

#include <cstdint>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/gpt.h"

namespace tenfold::inline lesson_59 {

inline constexpr Setting<int64_t> kExperts{"experts", {4, 4, 8}, "experts of each block"};
inline constexpr Setting<int64_t> kActive{"active", 2, "experts that a token uses"};
inline constexpr Setting<double> kCapacityFactor{
    "capacity_factor", 0, "rows of an expert's buffer over the mean; 0: as many as nothing can be dropped with"};
inline constexpr Setting<int64_t> kDataRanks{"data_ranks", 1, "ranks along \"dp\", which have the same experts"};
inline constexpr Setting<int64_t> kUpdates{"updates", 100, "updates before loads are counted"};
inline constexpr Setting<double> kLossWeight{"loss_weight", 0.01, "of the auxiliary loss"};
inline constexpr Setting<double> kBiasRate{"bias_rate", 0.001, "by which an expert's bias changes in an update"};

inline constexpr const char* kExpertParallel = "ep";

/// Of every expert over every token only 1 / 16 is needed.
inline std::vector<Assignment> many_experts() {
  return {gpt::kLayers(1, 2, 2), kExperts(32), gpt::kLength(32, 256, 256), gpt::kTokens("characters")};
}

/// A rank sends a row of D numbers for 16 D^2 FLOPs: wide layers are worth it.
inline std::vector<Assignment> wide_experts() {
  return {gpt::kLayers(1, 2, 2), gpt::kWidth(128, 1024, 1024), gpt::kHeads(4, 16, 16),
          kExperts(8),           gpt::kLength(32, 128, 256),   gpt::kTokens("characters")};
}

/// Few tokens, so that an expert has few rows.
inline std::vector<Assignment> few_tokens() {
  return {gpt::kLayers(2), gpt::kWidth(32),           gpt::kHeads(4), gpt::kLength(8), gpt::kBatch(4),
          kExperts(8),     gpt::kTokens("characters")};
}

/// The same, and each expert is on two of four ranks.
inline std::vector<Assignment> on_two_by_two() {
  std::vector<Assignment> settings = few_tokens();
  settings.push_back(kDataRanks(2));
  return settings;
}

/// What surveys count.
inline std::vector<Assignment> survey_sizes() {
  return {gpt::kLayers(1), gpt::kWidth(32),           gpt::kHeads(4), gpt::kLength(16), gpt::kBatch(8),
          kExperts(8),     gpt::kTokens("characters")};
}

/// What learns enough in a second that its experts come to differ.
inline std::vector<Assignment> balance_sizes() {
  return {gpt::kLayers(2), gpt::kWidth(32),           gpt::kHeads(4), gpt::kLength(32), gpt::kBatch(8),
          kExperts(8),     gpt::kTokens("characters")};
}

}  // namespace tenfold::inline lesson_59
