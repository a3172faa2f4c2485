#pragma once
// Memory of the baseline of lesson 64: of the workload everything is kept but its optimizer.

#include <cstdint>

#include "common/harness/lesson.h"
#include "state_bytes.h"

namespace tenfold::inline lesson_64 {

/// Most bytes of a training step. AdamW has a second average that SGD with momentum has not, and LibTorch's update two
/// temporaries of a parameter's size.
inline int64_t adamw_most_bytes(const Trial& trial) {
  const ModelShapes shapes = trial.workload == gpt_workload   ? shapes_for_muon(gpt_options(trial))
                             : trial.workload == mlp_workload ? shapes_for_muon(mlp_options(trial))
                                                              : shapes_for_muon(convnet_options(trial));
  return trial.workload.most_bytes(trial) + 3 * 4 * values_of(shapes.all);
}

}  // namespace tenfold::inline lesson_64
