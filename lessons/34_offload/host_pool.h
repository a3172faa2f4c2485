// installs as <tenfold/host_pool.h>
#pragma once
// Host memory for tensors that left the device: made once, page-locked, and used again.

#include <torch/torch.h>

#include <c10/core/Storage.h>

#include <bit>
#include <cstdint>
#include <map>
#include <vector>

namespace tenfold {

/// Buffers of bytes. Their sizes are rounded up to powers of two, as LibTorch's allocator of page-locked memory rounds
/// them anyway: where lengths change from batch to batch, a new size finds the buffers of the others, and the pool does
/// not grow with each. For one thread at a time. A buffer may be taken again as soon as it was given back: whoever
/// fills it orders that behind the copy that reads it.
class HostPool {
 public:
  /// `pinned`: page-locked, so that copies from and to a GPU overlap. Without a GPU it must be false.
  explicit HostPool(bool pinned) : pinned_(pinned) {}

  /// (bytes) of uint8.
  torch::Tensor take(int64_t bytes) {
    const auto size = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes)));
    std::vector<c10::Storage>& free = free_[size];
    if (free.empty()) {
      bytes_ += size;
      free.push_back(torch::empty({size}, torch::dtype(torch::kByte).pinned_memory(pinned_)).storage());
    }
    torch::Tensor buffer = torch::empty({0}, torch::dtype(torch::kByte));
    buffer.set_(free.back(), 0, {bytes}, {1});
    free.pop_back();
    return buffer;
  }

  /// What take() returned.
  void give_back(const torch::Tensor& buffer) {
    free_[static_cast<int64_t>(buffer.storage().nbytes())].push_back(buffer.storage());
  }

  /// Lets go of the buffers that nobody has.
  void drop() {
    for (const auto& [bytes, buffers] : free_) bytes_ -= bytes * static_cast<int64_t>(buffers.size());
    free_.clear();
  }

  /// Of all buffers, taken or free, as rounded.
  int64_t bytes() const { return bytes_; }

 private:
  bool pinned_;
  int64_t bytes_ = 0;
  std::map<int64_t, std::vector<c10::Storage>> free_;  // by size
};

}  // namespace tenfold
