#pragma once
// Time of a block of steps: device events on CUDA, the steady clock on the CPU.

#include <torch/torch.h>

#include <functional>

namespace tenfold {

/// Seconds that `work` takes, its queued device work included. On CUDA two events on the current stream enclose it, and
/// the only synchronisation is after the second; on the CPU the steady clock is read before and after.
double time_block(torch::Device device, const std::function<void()>& work);

}  // namespace tenfold
