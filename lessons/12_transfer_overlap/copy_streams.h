// installs as <tenfold/copy_streams.h>
#pragma once
// Where copies run that are overlapped with compute: on a CUDA stream, or, without a GPU, on a thread.
//
// Both have the same six calls, so the code that orders copies and compute (device_prefetch.h) is written once, and
// the tests of one are tests of the other.

#include <torch/torch.h>

#include "lessons/11_pinned_loading/host_stream.h"

#include <future>
#include <optional>

#ifdef TENFOLD_WITH_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace tenfold {

/// Copies on a thread. The compute is whatever the calling thread does, so to wait is to block it. A copy that is not
/// possible throws in compute_waits_for() of an event after it, and later copies are left out; on a CUDA stream copy()
/// itself throws.
class CopyThread {
 public:
  using Event = HostEvent;
  explicit CopyThread(torch::Device device) : device_(device) {}
  ~CopyThread() { held_.reset(); }  // nobody is left to let go
  CopyThread(const CopyThread&) = delete;
  CopyThread& operator=(const CopyThread&) = delete;
  torch::Device device() const { return device_; }

  /// Queues a copy; both must stay as they are until it is done.
  void copy(const torch::Tensor& to, const torch::Tensor& from) {
    copies_.run([to, from] { to.copy_(from); });
  }
  void mark_copies(Event& event) { event = copies_.record(); }
  void mark_compute(Event& event) { event = Event::now(); }
  void copies_wait_for(const Event& event) { copies_.wait(event); }
  void compute_waits_for(const Event& event) { event.synchronize(); }

  /// Copies queued from now on do not begin before let_go(): makes a race end the same way every time.
  void hold() {
    held_.emplace();
    copies_.run([over = held_->get_future().share()] { over.wait(); });
  }
  void let_go() { held_->set_value(); }

 private:
  torch::Device device_;
  std::optional<std::promise<void>> held_;
  HostStream copies_;  // the last member: ends first
};

#ifdef TENFOLD_WITH_CUDA
/// An event that knows when it was reached.
struct StreamEvent {
  at::cuda::CUDAEvent event{cudaEventDefault};
  void synchronize() const { event.synchronize(); }
  /// Of two recorded events; both must have been reached.
  double seconds_since(const StreamEvent& earlier) const { return earlier.event.elapsed_time(event) / 1e3; }
};

/// Copies on a CUDA stream of their own. The compute is the caller's current stream; to wait holds up that stream,
/// never the host. Copies from memory that is not pinned block the host all the same.
class CopyStream {
 public:
  using Event = StreamEvent;
  explicit CopyStream(torch::Device device)
      : device_(device), copies_(c10::cuda::getStreamFromPool(false, device.index())) {}
  torch::Device device() const { return device_; }

  void copy(const torch::Tensor& to, const torch::Tensor& from) {
    const c10::cuda::CUDAStreamGuard guard(copies_);
    to.copy_(from, /*non_blocking=*/true);
  }
  void mark_copies(Event& event) { event.event.record(copies_); }
  void mark_compute(Event& event) { event.event.record(compute()); }
  void copies_wait_for(Event& event) { event.event.block(copies_); }
  void compute_waits_for(Event& event) { event.event.block(compute()); }

  /// A copy engine cannot be held back; large copies take long enough.
  void hold() {}
  void let_go() {}

 private:
  c10::cuda::CUDAStream compute() const { return c10::cuda::getCurrentCUDAStream(device_.index()); }

  torch::Device device_;
  c10::cuda::CUDAStream copies_;
};
#endif

}  // namespace tenfold
