#pragma once
// Batches travel to the GPU through a few page-locked buffers that are used again and again.
//
// The copy engine reads host memory by itself, which is only safe when the system cannot move the pages: from ordinary
// (pageable) memory the driver first copies into a small locked buffer of its own, while the host waits. Locking pages
// costs far more than one copy, so the buffers are made once.
// Source: CUDA C++ Programming Guide 13.0, section "Page-Locked Host Memory".

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#ifdef TENFOLD_WITH_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace tenfold {

/// A ring of host buffers that rows of a data set are gathered into on their way to a device.
class PinnedStaging {
 public:
  /// `slots` buffers; with two, one can be filled while the other is being copied. `pinned` asks for page-locked memory
  /// and needs a CUDA device. Throws std::invalid_argument for no slots.
  explicit PinnedStaging(torch::Device device, int slots = 2, bool pinned = true)
      : device_(device), pinned_(pinned), slots_(slots > 0 ? slots : 0) {
    TORCH_CHECK_VALUE(slots > 0, "PinnedStaging needs at least one slot, got ", slots);
  }

  /// Rows `picked` (B) of `rows` (N, ...), on the device: (B, ...). Waits first until the copy that last used this slot
  /// is done; with `non_blocking` returns while the new copy is under way, ordered before later work of the stream.
  /// On the CPU the result is the slot itself and is overwritten `slots` calls later.
  torch::Tensor to_device(const torch::Tensor& rows, const torch::Tensor& picked, bool non_blocking) {
    Slot& slot = slots_[next_];
    next_ = (next_ + 1) % slots_.size();
    slot.wait();
    auto shape = rows.sizes().vec();
    shape[0] = picked.size(0);
    if (!slot.buffer.defined() || slot.buffer.sizes() != c10::IntArrayRef(shape) || slot.buffer.dtype() != rows.dtype()) {
      slot.buffer = torch::empty(shape, rows.options().pinned_memory(pinned_));
    }
    at::index_select_out(slot.buffer, rows, 0, picked);
    torch::Tensor result = slot.buffer.to(device_, non_blocking);
    slot.mark(device_);
    return result;
  }

 private:
  struct Slot {
    torch::Tensor buffer;
#ifdef TENFOLD_WITH_CUDA
    at::cuda::CUDAEvent copied;
    void wait() { copied.synchronize(); }  // returns at once for an event that was never recorded
    void mark(torch::Device device) {
      if (device.is_cuda()) copied.record(c10::cuda::getCurrentCUDAStream(device.index()));
    }
#else
    void wait() {}
    void mark(torch::Device) {}
#endif
  };

  torch::Device device_;
  bool pinned_;
  std::vector<Slot> slots_;
  size_t next_ = 0;
};

}  // namespace tenfold
