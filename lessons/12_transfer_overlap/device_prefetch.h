// installs as <tenfold/device_prefetch.h>
#pragma once
// Prefetch to the device: the copy of the next batch is overlapped with the compute of this one.
//
// Two streams alone overlap nothing: as long as there is one buffer, the next copy has to wait for the compute that
// reads it, and the compute for the copy. It takes two buffers and, for each, two events: "it is here" and "it has been
// read". Source: CUDA C++ Programming Guide 13.0, section "Asynchronous Concurrent Execution".

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

namespace tenfold {

/// How much of the copying was overlapped with compute.
struct Overlap {
  int64_t copies = 0;
  double copy_seconds = 0;    ///< where the copies run
  double waited_seconds = 0;  ///< of the compute, for a batch that was not there yet
  double hidden() const { return copy_seconds > 0 ? std::max(0.0, 1 - waited_seconds / copy_seconds) : 0; }
};

/// Two buffers on the device: one is trained on while the other is filled. In turn: start(), work, take(), start(), ...
/// Copies: CopyStream or CopyThread of copy_streams.h. For one thread and one compute stream.
template <class Copies>
class DevicePrefetch {
 public:
  using Tensors = std::vector<torch::Tensor>;

  explicit DevicePrefetch(Copies& copies) : copies_(copies) {}
  ~DevicePrefetch() {
    try {
      if (filling().started) filling().copied.synchronize();  // the buffers must outlive the copies into them
    } catch (const std::exception& error) {
      TORCH_WARN("DevicePrefetch: a copy failed that nobody waited for: ", error.what());
    }
  }
  DevicePrefetch(const DevicePrefetch&) = delete;
  DevicePrefetch& operator=(const DevicePrefetch&) = delete;

  /// Starts to copy a batch (contiguous host tensors, pinned for a GPU) and returns at once; it is copied while the
  /// batch taken last is computed on. Do not change `batch` until its successor has been taken. Throws c10::Error when
  /// the batch started before was not taken yet.
  void start(const Tensors& batch) {
    Slot& slot = filling();
    TORCH_CHECK(!slot.started, "DevicePrefetch: take() the batch that is on its way before starting another");
    if (!fits(slot.tensors, batch)) make_room(slot, batch);
    copies_.copies_wait_for(slot.read);  // never refill what is still being read
    copies_.mark_copies(slot.begun);
    for (size_t i = 0; i < batch.size(); ++i) copies_.copy(slot.tensors[i], batch[i]);
    copies_.mark_copies(slot.copied);
    slot.started = true;
  }

  /// The batch started last, on the device. Computing queued from now on waits until it is there; computing queued
  /// before may still read the batch taken before, but nothing queued later may. Throws c10::Error when none was
  /// started.
  Tensors take() {
    Slot& next = filling();
    TORCH_CHECK(next.started, "DevicePrefetch: start() a batch before taking it");
    Slot& last = slots_[1 - filling_];
    copies_.mark_compute(last.read);
    copies_.compute_waits_for(next.copied);  // never read what is still being filled
    copies_.mark_compute(next.here);
    if (taken_ > 0) last.here.synchronize();  // keeps the host at most one batch ahead of the device
    if (taken_ > 1) meter(last, /*gave_way=*/next);
    ++taken_;
    next.started = false;
    filling_ = 1 - filling_;
    return next.tensors;
  }

  /// Of the batches so far, without the first, which has nothing to hide behind.
  const Overlap& overlap() const { return overlap_; }

 private:
  struct Slot {
    Tensors tensors;
    typename Copies::Event begun, copied;  // marked behind copies
    typename Copies::Event here, read;     // marked behind computing
    bool started = false;                  // and not taken yet
  };

  Slot& filling() { return slots_[filling_]; }

  static bool fits(const Tensors& tensors, const Tensors& batch) {
    return tensors.size() == batch.size() &&
           std::equal(tensors.begin(), tensors.end(), batch.begin(),
                      [](const auto& a, const auto& b) { return a.sizes() == b.sizes() && a.dtype() == b.dtype(); });
  }

  void make_room(Slot& slot, const Tensors& batch) {
    slot.tensors.clear();
    for (const torch::Tensor& tensor : batch)
      slot.tensors.push_back(
          torch::empty(tensor.sizes(), tensor.options().device(copies_.device()).pinned_memory(false)));
    // The allocator hands out memory that is free in the compute stream's order: what is queued there may still use it.
    // So this one copy overlaps nothing; all later ones find their room.
    typename Copies::Event before;
    copies_.mark_compute(before);
    copies_.copies_wait_for(before);
  }

  // Events have been reached: `last` is being computed on, after `gave_way` was.
  void meter(const Slot& last, const Slot& gave_way) {
    ++overlap_.copies;
    overlap_.copy_seconds += last.copied.seconds_since(last.begun);
    overlap_.waited_seconds += last.here.seconds_since(gave_way.read);
  }

  Copies& copies_;
  std::array<Slot, 2> slots_;
  size_t filling_ = 0;
  int64_t taken_ = 0;
  Overlap overlap_;
};

}  // namespace tenfold
