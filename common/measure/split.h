#pragma once
// Where a step's time goes. A pass of its own: the observers cost time, so these steps are never part of a verdict.

#include <torch/torch.h>

#include <optional>
#include <string>

#include "common/result/result.h"

namespace tenfold {

struct Step;

/// Mean seconds of one step over `steps`. On the CPU split into
///   data, copy, communication   the regions of these names (waiting included)
///   device                      operators outside them
///   host                        the rest: dispatch, autograd's bookkeeping, the lesson's own code
/// On CUDA from Kineto's trace, by split_of(); nothing where the GPU's activities could not be traced, as in a
/// container that is not permitted to use CUPTI.
std::optional<Split> split_step(torch::Device device, const Step& step, int steps);

/// Records `steps` steps with Kineto and writes a Chrome trace (chrome://tracing, Perfetto) to `path`, whose folder is
/// made.
void write_trace(torch::Device device, const Step& step, int steps, const std::string& path);

}  // namespace tenfold
