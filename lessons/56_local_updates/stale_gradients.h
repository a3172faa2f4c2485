// installs as <tenfold/stale_gradients.h>
#pragma once
// "Asynchronous" training with the luck taken out of it: every update uses the gradients of the update before, which
// were sent while this one was computed.

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <utility>

#include "flat_model.h"

namespace tenfold {

/// An all-reduce that has the time of a whole forward and backward pass. What it costs is that the gradient is that of
/// parameters that are one update old, and one copy of the gradients (P), in which they travel.
class StaleMean {
 public:
  explicit StaleMean(c10::intrusive_ptr<c10d::ProcessGroup> group) : group_(std::move(group)) {}

  /// Starts to send `gradients` (P), and leaves in them the ranks' mean of the call before. False in the first call:
  /// there is nothing to update with.
  bool exchange(const torch::Tensor& gradients) {
    const torch::NoGradGuard no_grad;
    RECORD_USER_SCOPE("communication");
    if (work_) std::exchange(work_, {})->wait();
    const torch::Tensor mean = std::exchange(sent_, gradients / (group_ ? group_->getSize() : 1));
    if (group_) {
      std::vector<torch::Tensor> tensors{sent_};
      work_ = group_->allreduce(tensors);
    }
    if (!mean.defined()) return false;
    gradients.copy_(mean);
    return true;
  }

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  torch::Tensor sent_;  // (P), on its way
  c10::intrusive_ptr<c10d::Work> work_;
};

}  // namespace tenfold
