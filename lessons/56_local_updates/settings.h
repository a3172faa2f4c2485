#pragma once
// The settings that lesson 56 has besides the GPT's: its variants and their predictions read them.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/affordable_gpt.h"
#include "common/models/gpt.h"
#include "gradient_compression.h"
#include "local_sgd.h"

namespace tenfold::inline lesson_56 {

inline constexpr Setting<int64_t> kInnerUpdates{"inner_updates", 4, "updates of a round, which is a step"};
inline constexpr Setting<double> kOuterRate{"outer_rate", 0.7, "learning rate of DiLoCo's outer SGD"};
/// The paper's 0.9 suits rounds of 500 updates. After rounds of a few it overshoots.
inline constexpr Setting<double> kOuterMomentum{"outer_momentum", 0.5, "Nesterov momentum of DiLoCo's outer SGD"};
inline constexpr Setting<int64_t> kRank{"rank", 4, "columns of PowerSGD's two matrices"};
inline constexpr Setting<double> kShare{"share", 0.05, "share of its values that a rank sends by top-k"};
inline constexpr Setting<std::string> kOptimizer{
    "optimizer", "sgd", "of a rank: SGD with momentum 0.9, or AdamW", {"sgd", "adamw"}};
inline constexpr Setting<double> kAdamWLearningRate{"adamw_learning_rate", 1e-3, "of AdamW"};
inline constexpr Setting<int64_t> kUpdates{"updates", 200, "updates of a training"};

/// What the lesson declares, for its program and its surveys.
inline std::vector<DeclaredSetting> all_settings() {
  return {kInnerUpdates, kOuterRate, kOuterMomentum, kRank, kShare, kOptimizer, kAdamWLearningRate, kUpdates};
}

inline OuterSgd outer_sgd(const Trial& trial) { return {trial.get(kOuterRate), trial.get(kOuterMomentum)}; }
/// From a Trial or a Counted.
template <class Source>
PowerSgdOptions power_sgd_options(const Source& source) {
  return {.rank = source.get(kRank)};
}

/// So many columns that nothing is left out.
inline constexpr PowerSgdOptions kFullRank{.rank = int64_t{1} << 40, .least_saving = 0};

inline std::unique_ptr<torch::optim::Optimizer> optimizer_of(const Trial& trial,
                                                             const std::vector<torch::Tensor>& parameters) {
  if (trial.get(kOptimizer) == "adamw") {
    // Epsilon as in lesson 53: with 1e-8 AdamW would make steps of what rounding leaves of a zero gradient.
    return std::make_unique<torch::optim::AdamW>(
        parameters, torch::optim::AdamWOptions(trial.get(kAdamWLearningRate)).eps(1e-6).weight_decay(1e-2));
  }
  return std::make_unique<torch::optim::SGD>(parameters,
                                             torch::optim::SGDOptions(trial.get(gpt::kLearningRate)).momentum(0.9));
}

/// Wide layers and few tokens: much to send, little to compute.
inline std::vector<Assignment> wide_layers() {
  return {gpt::kLayers(2, 12, 12), gpt::kWidth(128, 768, 1024), gpt::kHeads(4, 12, 16), gpt::kLength(8, 64, 64)};
}
inline std::vector<Assignment> large_gradient() {
  std::vector<Assignment> all = wide_layers();
  all.push_back(kOptimizer("adamw"));
  return all;
}

/// A model in which every value can be sent.
inline std::vector<Assignment> tiny_model() {
  return {gpt::kLayers(1),  gpt::kWidth(32), gpt::kHeads(2),
          gpt::kLength(16), gpt::kBatch(8),  gpt::kTokens("characters"),
          kInnerUpdates(1)};
}

inline std::vector<Assignment> many_updates(const char* optimizer) {
  return gpt::affordable({gpt::kLearningRate(0.05), kInnerUpdates(8), kOptimizer(optimizer)});
}

/// The same, where a rank sends so few values that quality suffers.
inline std::vector<Assignment> few_values() {
  std::vector<Assignment> all = many_updates("sgd");
  all.push_back(kShare(0.002));
  return all;
}

/// Of one rank that has the whole batch. To the workload's formula, which has one momentum, come gradients that always
/// stay, AdamW's second average, and the two temporaries of its largest update.
inline int64_t rounds_most_bytes(const Trial& trial) {
  const GptOptions options = gpt_options(trial);
  const int64_t largest = 4 * options.width * std::max(options.vocabulary(), 4 * options.width);
  return step_peak_bytes(options) + 2 * parameter_bytes(options) + 2 * largest;
}

}  // namespace tenfold::inline lesson_56
