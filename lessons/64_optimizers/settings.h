#pragma once
// Settings of lesson 64, and what its parts train.

#include <cstdint>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/affordable_gpt.h"
#include "common/models/convnet.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"
#include "muon.h"

namespace tenfold::inline lesson_64 {

// Rates are the best of powers of two, each optimizer's by itself, on seeds that no table has: see the page.
inline constexpr Setting<double> kAdamWRate{"adamw_rate", {4e-3, 1e-3, 1e-3}, "learning rate of AdamW"};
inline constexpr Setting<double> kMuonRate{"muon_rate", 0.02, "learning rate of Muon; what it leaves has AdamW's"};
inline constexpr Setting<double> kLionRate{"lion_rate", {2e-3, 1e-4, 1e-4}, "learning rate of Lion"};
inline constexpr Setting<double> kShampooRate{"shampoo_rate", 0.01, "of Shampoo; what it leaves has AdamW's"};
inline constexpr Setting<double> kScheduleFreeRate{
    "schedule_free_rate", {4e-3, 2e-3, 2e-3}, "learning rate of schedule-free AdamW"};
inline constexpr Setting<double> kMomentumRate{"momentum_rate", 0.1, "learning rate of SGD with momentum 0.9"};
inline constexpr Setting<double> kBeta2{"beta2", 0.95, "of the squares' average in AdamW, with a schedule or without"};
inline constexpr Setting<double> kWeightDecay{"weight_decay", 1e-2, "taken from the parameter itself"};
inline constexpr Setting<bool> kNativeBf16{"native_bf16", false, "Muon multiplies in 16 bits on a CPU, too"};
inline constexpr Setting<int64_t> kUpdates{"updates", 150, "updates of a training"};

/// Layers of a workload that are not hidden: its last, and without an embedding its first.
inline std::vector<std::string> not_hidden(const Trial& trial) {
  if (trial.workload != mlp_workload) return {"head"};
  return {"layers.0", "layers." + std::to_string(2 * (trial.get(mlp::kLayers) - 1))};  // ReLUs between
}

/// Wide layers and few tokens: the update is most of a step.
inline std::vector<Assignment> few_tokens() {
  return {gpt::kLayers(1, 12, 12), gpt::kWidth(128, 768, 1536), gpt::kHeads(4, 12, 12), gpt::kLength(16, 64, 64),
          gpt::kBatch(1)};
}

/// Few channels and images: steps of the convnet that are cheap.
inline std::vector<Assignment> narrow() { return {convnet::kChannels(8, 32, 64), convnet::kBatch(16, 512, 4096)}; }

/// Images: a deep and narrow MLP. Rates of its own, found in the same way.
inline std::vector<Assignment> images() {
  return {kAdamWRate(1.6e-2), kMuonRate(0.04),           kShampooRate(0.04),
          kLionRate(4e-3),    kScheduleFreeRate(1.6e-2), kMomentumRate(0.2)};
}

}  // namespace tenfold::inline lesson_64
