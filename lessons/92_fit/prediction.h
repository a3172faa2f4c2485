#pragma once
// What a stack of levers should leave of the step's memory. Its speed is not predicted: that is each lever's own
// lesson.

#include "bytes_by_formula.h"
#include "common/harness/lesson.h"
#include "levers.h"
#include "settings.h"

namespace tenfold::inline lesson_92 {

/// From the sizes alone: nothing that was counted on the baseline is needed.
inline std::function<Prediction(const Counted&)> by_formula(const Levers& levers) {
  return [levers](const Counted& all_at_once) {
    const StepBytes bytes(step_sizes(all_at_once), possible_in(all_at_once, levers));
    return Prediction{.peak_bytes = bytes.peak().total()};
  };
}

}  // namespace tenfold::inline lesson_92
