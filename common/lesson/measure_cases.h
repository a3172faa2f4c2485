#pragma once
// All cases of a lesson, through all passes.

#include <vector>

#include <tenfold/options.h>
#include <tenfold/process_group.h>
#include <tenfold/result.h>

namespace tenfold {

/// Measures all cases. Each gets an equal part of half the time that is there for timing; the other half goes where it
/// narrows intervals most. `results` gets the cases that have verdicts. False when it was asked to stop before the end.
bool measure_cases(const Lesson& lesson, const std::vector<Case>& cases, const Options& options, const World& world, torch::Device device,
                   const Machine& machine, std::vector<CaseResult>& results);

}  // namespace tenfold
