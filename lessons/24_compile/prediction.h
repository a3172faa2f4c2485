#pragma once
// What compiling should bring, from the baseline's counted step; and what that one needs at most.

#include <algorithm>
#include <cstdint>

#include "common/harness/lesson.h"
#include "common/models/mlp.h"
#include "elementwise.h"
#include "lessons/35_quantization/prediction.h"
#include "served_gpt.h"

namespace tenfold::inline lesson_24 {

/// Of the baseline in any case.
inline int64_t compile_most_bytes(const Trial& trial) {
  if (trial.get(kForwardOnly)) return inference_most_bytes(trial);
  return trial.workload.most_bytes(trial);
}

}  // namespace tenfold::inline lesson_24
