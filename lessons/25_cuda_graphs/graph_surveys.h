#pragma once
// Surveys of lesson 25: what a step launches, which lines of a step no graph can hold, and two kinds of peak memory.

#include <torch/torch.h>

#include <vector>

#include "batch_training.h"
#include "common/harness/lesson.h"

namespace tenfold::inline lesson_25 {

/// Notes the operators of a step and of its update; on a GPU each launches a kernel or a few, or none.
void note_operators(const Trial& trial, const Step& step);

/// A look for each line that is often found in a step: how often the host waits for the device there. 0 is what a
/// capture needs.
std::vector<Look> lines_that_wait();

/// Notes the peaks of two steps, of each kind that the device has: those that tensors requested, and what the allocator
/// took from the device. The capture is before these steps, and what it reserved is still reserved.
void note_peaks(const Trial& trial, Step (*build)(const Trial&));

}  // namespace tenfold::inline lesson_25
