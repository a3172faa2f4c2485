// installs as <tenfold/host_pool.h>
#pragma once
// Host memory for tensors that left the device: made once, page-locked, and used again.

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace tenfold {

/// Buffers of bytes, kept by their size. For one thread at a time. A buffer may be taken again as soon as it was given
/// back: whoever fills it orders that behind the copy that reads it.
class HostPool {
 public:
  /// `pinned`: page-locked, so that copies from and to a GPU overlap. Without a GPU it must be false.
  explicit HostPool(bool pinned) : pinned_(pinned) {}

  /// (bytes) of uint8.
  torch::Tensor take(int64_t bytes) {
    std::vector<torch::Tensor>& free = free_[bytes];
    if (free.empty()) {
      bytes_ += bytes;
      return torch::empty({bytes}, torch::dtype(torch::kByte).pinned_memory(pinned_));
    }
    torch::Tensor buffer = std::move(free.back());
    free.pop_back();
    return buffer;
  }

  void give_back(torch::Tensor buffer) { free_[buffer.numel()].push_back(std::move(buffer)); }

  /// Lets go of the buffers that nobody has.
  void drop() {
    for (const auto& [bytes, buffers] : free_) bytes_ -= bytes * static_cast<int64_t>(buffers.size());
    free_.clear();
  }

  /// Of all buffers, taken or free.
  int64_t bytes() const { return bytes_; }

 private:
  bool pinned_;
  int64_t bytes_ = 0;
  std::map<int64_t, std::vector<torch::Tensor>> free_;
};

}  // namespace tenfold
