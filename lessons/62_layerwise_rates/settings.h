#pragma once
// Settings of lesson 62, and the stages of the convnet.

#include <cstdint>
#include <string>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/convnet.h"
#include "layerwise_rates.h"

namespace tenfold::inline lesson_62 {

inline constexpr Setting<double> kDecay{"decay", 0.5, "rate of a stage, of that of the stage above it"};
inline constexpr Setting<int64_t> kFrozen{"frozen", 0, "stages that do not train, of 3"};
inline constexpr Setting<bool> kFrozenAbove{"frozen_above", false, "they are the last stages, not the first"};
inline constexpr Setting<int64_t> kUpdates{"updates", 160, "updates of a training"};
inline constexpr Setting<int64_t> kImages{"images", 100, "of the new classes, to fine-tune on"};
inline constexpr Setting<int64_t> kSourceUpdates{"source_updates", 3, "of the first training, for each of a later one"};

inline const std::vector<std::string>& stage_names() {
  static const std::vector<std::string> names = {"conv1", "conv2", "head"};
  return names;
}

/// Whether stage `i` of 3 trains.
inline bool stage_trains(int64_t i, int64_t frozen, bool above) {
  return above ? i < static_cast<int64_t>(stage_names().size()) - frozen : i >= frozen;
}

}  // namespace tenfold::inline lesson_62
