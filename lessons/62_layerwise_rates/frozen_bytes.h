#pragma once
// What frozen stages no longer keep from one step to the next, counted and by formula.

#include <cstdint>
#include <string>

#include "common/harness/lesson.h"
#include "common/measure/counted.h"
#include "prediction.h"

namespace tenfold::inline lesson_62 {

using MakeStep = Step (*)(const Trial&);

/// A line of survey "frozen bytes": bytes alive between two steps with all gradients less those with frozen stages.
inline Look frozen_bytes(const std::string& name, MakeStep all, MakeStep frozen) {
  return {name, [=](const Trial& trial) {
            trial.workload.make(trial);  // what the workload keeps for all, such as its images, is there from now on
            const auto resting = [&](MakeStep make) {
              return count_step(trial.device, [&] { return make(trial); }).resting_bytes;
            };
            int64_t gradients = 0;
            for (int64_t i = 0; i < 3; ++i) {
              if (!stage_trains(i, trial.get(kFrozen), trial.get(kFrozenAbove)))
                gradients += stage_bytes(i, trial.get(convnet::kChannels));
            }
            trial.note("fewer bytes", static_cast<double>(resting(all) - resting(frozen)), "bytes");
            trial.note("gradients, by formula", static_cast<double>(gradients), "bytes");
            trial.note("momentum, by formula", static_cast<double>(gradients), "bytes");
          }};
}

}  // namespace tenfold::inline lesson_62
