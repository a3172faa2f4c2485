#pragma once
// A model's layers on the roofline: arithmetic by formula and as PyTorch's own counter sees it, and the time that the
// layer takes next to the least that the ceilings allow.

#include <torch/torch.h>

#include <functional>
#include <vector>

#include "common/harness/lesson.h"

namespace tenfold::inline lesson_02 {

/// The forward pass of the workload as it is; its backward needs about twice as much of the same.
std::vector<Look> convnet_layers();
std::vector<Look> gpt_layers();

/// The time of a batch of 32 over that of a single image: 32 if images were processed one at a time.
std::vector<Look> one_picture_or_many();

/// The ceilings of this machine's CPU and of its GPU.
std::vector<Look> this_machine();

}  // namespace tenfold::inline lesson_02
