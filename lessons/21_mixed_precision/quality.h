#pragma once
// Does the training end as well with fewer bits? The variants' own updates, many of them, and the loss on held-out
// plays.

#include <cstdint>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/affordable_gpt.h"
#include "common/models/gpt.h"

namespace tenfold::inline lesson_21 {

inline constexpr Setting<int64_t> kUpdates{"updates", 200, "updates of a training"};

/// Narrower on a CPU, and with a learning rate that makes updates as small as they are late in a long training: weights
/// of 16 bits lose them.
inline std::vector<Assignment> small_model_and_updates() {
  return gpt::affordable({gpt::kWidth(32, 512, 512), gpt::kLearningRate(0.01)});
}

}  // namespace tenfold::inline lesson_21
