#pragma once
// Memory of the baseline of lesson 45: of the workload everything is kept but its optimizer.

#include <cstdint>

#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"

namespace tenfold::inline lesson_45 {

/// Most bytes of a training step. AdamW has a second state that SGD with momentum has not, and its update two
/// temporaries of a parameter's size, which may be nearly all of an MLP.
inline int64_t adamw_most_bytes(const Trial& trial) {
  const bool gpt = trial.workload == gpt_workload;
  const int64_t more = gpt ? parameter_bytes(gpt_options(trial)) : 3 * parameter_bytes(mlp_options(trial));
  return trial.workload.most_bytes(trial) + more;
}

}  // namespace tenfold::inline lesson_45
