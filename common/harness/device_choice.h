#pragma once
// Which device each rank of a run computes on.

#include <torch/torch.h>

#include <string>
#include <vector>

#include "common/ranks/process_group.h"

namespace tenfold {

/// What a rank sees around itself.
struct Surroundings {
  std::string host;
  std::vector<std::string> gpus;  ///< that it may use, each by a name that no other GPU has
  std::string why_none = "";      ///< a sentence without a full stop, where there are none
};

struct DeviceChoice {
  torch::Device device = torch::kCPU;
  std::string remark;  ///< one line, when a run that would rather use GPUs does not
};

/// The device that --device, `wanted`, means for `rank`, given what every rank sees. On CUDA each rank has a GPU of its
/// own, as NCCL wants it: the ranks of a host take the GPUs that they see in turn. Where that is not possible "auto" is
/// the CPU for all, and "cuda" throws UsageError. Every rank comes to the same decision.
DeviceChoice choose_device(const std::string& wanted, const std::vector<Surroundings>& ranks, int rank);

/// The same of the ranks that run; on dry GPUs a single rank takes the last. Every rank must call it; the device
/// becomes the thread's current one.
DeviceChoice chosen_device(const std::string& wanted, const World& world);

}  // namespace tenfold
