// installs as <tenfold/pinned_staging.h>
#pragma once
// Batches travel to the GPU through a few page-locked buffers that are used again and again.
//
// The copy engine reads host memory by itself, which is only safe when the system cannot move the pages: from ordinary
// (pageable) memory the driver first copies into a small locked buffer of its own, while the host waits. Locking pages
// costs far more than one copy, so the buffers are made once.
// Source: CUDA C++ Programming Guide 13.0, section "Page-Locked Host Memory".

#include <torch/torch.h>
#include "lessons/10_parallel_loading/batch.h"

#include <cstdint>
#include <vector>

namespace tenfold {

/// A ring of host buffers that rows of a data set are gathered into on their way to a device.
class PinnedStaging {
 public:
  /// `slots` buffers; with two, one can be filled while the other is being copied. `pinned` asks for page-locked memory
  /// and needs a CUDA device. Throws c10::ValueError for no slots.
  explicit PinnedStaging(torch::Device device, int slots = 2, bool pinned = true)
      : device_(device), pinned_(pinned), slots_(slots > 0 ? slots : 0) {
    TORCH_CHECK_VALUE(slots > 0, "PinnedStaging needs at least one slot, got ", slots);
  }

  /// The host's part: gathers rows `picked` (B) of `rows` (N, ...) into the next slot, once the copy that used it last
  /// is done. May run on another thread, as long as it ends before send() begins.
  void gather(const torch::Tensor& rows, const torch::Tensor& picked) {
    current_ = (current_ + 1) % slots_.size();
    Slot& slot = slots_[current_];
    slot.copied.wait();
    auto shape = rows.sizes().vec();
    shape[0] = picked.size(0);
    if (!slot.buffer.defined() || slot.buffer.sizes() != c10::IntArrayRef(shape) ||
        slot.buffer.dtype() != rows.dtype()) {
      slot.buffer = torch::empty(shape, rows.options().pinned_memory(pinned_));
    }
    at::index_select_out(slot.buffer, rows, 0, picked);
  }

  /// The copy: the rows gathered last, on the device: (B, ...). With `non_blocking` returns while the copy is under
  /// way; work queued later on the current stream finds it done. On the CPU there is nothing to copy: the result is the
  /// slot itself and is overwritten by the gather() that is `slots` calls later.
  torch::Tensor send(bool non_blocking) {
    Slot& slot = slots_[current_];
    TORCH_CHECK(slot.buffer.defined(), "PinnedStaging: gather() rows before sending them");
    torch::Tensor result = slot.buffer.to(device_, non_blocking);
    slot.copied.record(device_);
    return result;
  }

  /// Both, one after the other.
  torch::Tensor to_device(const torch::Tensor& rows, const torch::Tensor& picked, bool non_blocking) {
    gather(rows, picked);
    return send(non_blocking);
  }

 private:
  struct Slot {
    torch::Tensor buffer;
    CopyDone copied;
  };

  torch::Device device_;
  bool pinned_;
  std::vector<Slot> slots_;
  size_t current_ = 0;  // the slot gathered last
};

}  // namespace tenfold
