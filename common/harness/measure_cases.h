#pragma once
// All cases of a lesson, through all passes.

#include <vector>

#include "common/harness/options.h"
#include "common/ranks/process_group.h"
#include "common/result/result.h"

namespace tenfold {

/// Measures all cases. Each gets an equal part of about a third of the lesson's time for timing; what the other passes
/// leave goes where it narrows intervals most. `results` gets the cases that got through their first slice, the
/// trainings and the surveys. False when it was asked to stop before the end.
bool measure_cases(const Lesson& lesson, const std::vector<Chosen>& cases, const Options& options, const World& world,
                   torch::Device device, const Machine& machine, std::vector<CaseResult>& results);

}  // namespace tenfold
