#pragma once
// Where a step's time goes. A pass of its own: the observers cost time, so these steps are never part of a verdict.

#include <torch/torch.h>

#include <string>

#include <tenfold/result.h>

namespace tenfold {

struct Step;

/// Mean seconds of one step over `steps`, split into
///   data, copy, communication   the regions of these names (waiting included)
///   device                      operators on the CPU; on CUDA the time the GPU was computing
///   host                        the rest: dispatch, autograd's bookkeeping, the lesson's own code
Split split_step(torch::Device device, const Step& step, int steps);

/// Records `steps` steps with Kineto and writes a Chrome trace (chrome://tracing, Perfetto) to `path`, whose folder is made.
void write_trace(torch::Device device, const Step& step, int steps, const std::string& path);

}  // namespace tenfold
