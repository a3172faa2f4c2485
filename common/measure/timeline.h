#pragma once
// What is alive over one step: the curve whose highest point is the peak.

#include <torch/torch.h>

#include "common/result/result.h"

namespace tenfold {

struct Step;

inline constexpr size_t kMostTimelinePoints = 200;

/// Trains one update and notes the bytes of live tensors at each operator, less `before`. Points that lie close
/// together become one, their highest, so that the timeline has the step's peak. Where `step` names
/// its parameters, with each the bytes of their gradients. Its region is the innermost named one
/// of data, copy, communication, recompute and optimizer; outside them forward, backward (while autograd's engine
/// runs), or optimizer (what records no graph after the last backward). Not for timed code. Resets the allocator's
/// peak.
Timeline memory_timeline(torch::Device device, const Step& step, int64_t before);

}  // namespace tenfold
