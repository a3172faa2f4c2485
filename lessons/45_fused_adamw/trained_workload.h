#pragma once
// What lesson 45 trains: the MLP, or the GPT where the case says so. Of the workload everything is kept but its
// optimizer.

#include <cstdint>
#include <string>

#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"
#include "common/models/workload.h"

namespace tenfold {

inline constexpr Setting<std::string> kWorkload{"workload", "mlp", "what is trained", {"mlp", "gpt"}};

/// Most bytes of a training step. AdamW has a second state that SGD with momentum has not, and its update two
/// temporaries of a parameter's size, which may be nearly all of an MLP.
inline int64_t trained_workload_bytes(const Trial& trial) {
  const bool gpt = trial.get(kWorkload) == "gpt";
  const int64_t more = gpt ? parameter_bytes(gpt_options(trial)) : 3 * parameter_bytes(mlp_options(trial));
  return workload_bytes(trial, trial.get(kWorkload)) + more;
}

inline Workload trained_workload(const Trial& trial) { return make_workload(trial, trial.get(kWorkload)); }

}  // namespace tenfold
