#pragma once
// Does the training end as well with fewer bits? The variants' own updates, many of them, and the loss on held-out
// plays.

#include <cstdint>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/gpt.h"

namespace tenfold::inline lesson_21 {

inline constexpr Setting<int64_t> kUpdates{"updates", 200, "updates of a training"};

/// A model that many updates are affordable for, and a learning rate that makes them as small as they are late in a
/// long training: weights of 16 bits lose them.
inline std::vector<Assignment> small_model_and_updates() {
  return {gpt::kLayers(1, 4, 4),      gpt::kWidth(32, 512, 512), gpt::kHeads(4, 8, 8),
          gpt::kLength(32, 512, 512), gpt::kBatch(8, 16, 16),    gpt::kLearningRate(0.01)};
}

}  // namespace tenfold::inline lesson_21
