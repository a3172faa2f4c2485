#pragma once
// What lesson 21 trains: the GPT, or the MLP of small layers where a case says so.

#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"
#include "common/models/workload.h"

namespace tenfold {

inline constexpr Setting<std::string> kWorkload{"workload", "gpt", "what is trained", {"gpt", "mlp"}};

inline Workload trained_workload(const Trial& trial) { return make_workload(trial, trial.get(kWorkload)); }

}  // namespace tenfold
