#pragma once
// Memory of the baseline of lesson 33: of the workload everything is kept but its optimizer.

#include <cstdint>

#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"

namespace tenfold::inline lesson_33 {

/// Most bytes of a training step. AdamW has a second average that SGD with momentum has not, and its update a temporary
/// of a parameter's size.
inline int64_t adamw_most_bytes(const Trial& trial) {
  const bool gpt = trial.workload == gpt_workload;
  return trial.workload.most_bytes(trial) +
         2 * (gpt ? parameter_bytes(gpt_options(trial)) : parameter_bytes(mlp_options(trial)));
}

}  // namespace tenfold::inline lesson_33
