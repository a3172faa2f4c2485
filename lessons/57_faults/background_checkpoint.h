// installs as <tenfold/background_checkpoint.h>
#pragma once
// Checkpoints that training waits for only while they are copied: a thread writes the copy.

#include <torch/torch.h>

#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdint>
#include <exception>
#include <future>
#include <set>
#include <utility>

#include "atomic_checkpoint.h"

namespace tenfold {

/// The copies lie in the host's memory, page-locked where they come from a GPU, and stay there for the next checkpoint.
/// LibTorch rounds a page-locked buffer up to a power of two: it is up to twice the state that is locked.
class BackgroundCheckpoints {
 public:
  explicit BackgroundCheckpoints(CheckpointFolder folder) : folder_(std::move(folder)) {}
  ~BackgroundCheckpoints() {
    if (writing_.valid()) writing_.wait();
  }
  BackgroundCheckpoints(const BackgroundCheckpoints&) = delete;
  BackgroundCheckpoints& operator=(const BackgroundCheckpoints&) = delete;

  /// Returns when the tensors may change again. Waits for the checkpoint before this one, and throws what writing it
  /// has thrown.
  void save(int64_t step, const NamedTensors& tensors) {
    finish();
    const torch::NoGradGuard no_grad;
    std::erase_if(copies_, [&](const auto& copy) { return !tensors.contains(copy.first); });
    std::set<c10::DeviceIndex> copying;
    for (const auto& [name, tensor] : tensors) {
      torch::Tensor& copy = copies_[name];
      if (!copy.defined() || copy.sizes() != tensor.sizes() || copy.scalar_type() != tensor.scalar_type())
        copy = torch::empty(tensor.sizes(), torch::dtype(tensor.scalar_type()).pinned_memory(tensor.is_cuda()));
      copy.copy_(tensor, /*non_blocking=*/true);
      if (tensor.is_cuda()) copying.insert(tensor.device().index());
    }
    // Once for all tensors, not for each: the thread must not read what a GPU has not copied yet.
    for (const c10::DeviceIndex device : copying)
      c10::impl::VirtualGuardImpl(torch::kCUDA).getStream({torch::kCUDA, device}).synchronize();
    writing_ = std::async(std::launch::async, [this, step] { folder_.save(step, copies_); });
  }

  /// Waits until the last checkpoint is safe. Throws what writing it has thrown. Call it at the end of training.
  void finish() {
    if (writing_.valid()) writing_.get();
  }

 private:
  CheckpointFolder folder_;
  NamedTensors copies_;
  std::future<void> writing_;
};

}  // namespace tenfold
