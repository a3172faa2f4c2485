// installs as <tenfold/async_scalar.h>
#pragma once
// A scalar of the device, read by the host without waiting for the device.
//
// item() waits until everything queued so far is done. Here the value is copied to page-locked memory instead, in its
// turn, and an event behind the copy says when it has arrived. The host asks for it some steps later: by then the
// device is long past the event, and the host is still ahead of it. On a CPU a value is there at once, and handed out
// just as late, so that a program behaves the same on both.
// Source: PyTorch documentation 2.11, CUDA semantics, sections "Asynchronous execution" and "Use pinned memory
// buffers".

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#ifdef TENFOLD_WITH_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace tenfold {

/// Copies to the host on the current stream of the device that a value lies on.
struct CopiesToHost {
  /// Behind a copy.
  struct Event {
#ifdef TENFOLD_WITH_CUDA
    at::cuda::CUDAEvent of_stream;
#endif
    /// Blocks until the copy has arrived; one that was never recorded has.
    void synchronize() const {
#ifdef TENFOLD_WITH_CUDA
      of_stream.synchronize();
#endif
    }
  };

  /// Queues the copy and returns; `to` must be page-locked unless `from` is a CPU tensor. Equal types: in
  /// some versions of LibTorch a copy that converts goes through ordinary memory, and waits.
  static void copy(const torch::Tensor& to, const torch::Tensor& from, Event& behind) {
#ifdef TENFOLD_WITH_CUDA
    to.copy_(from, /*non_blocking=*/true);
    if (from.is_cuda()) behind.of_stream.record(c10::cuda::getCurrentCUDAStream(from.device().index()));
#else
    TORCH_CHECK(!from.is_cuda(), "AsyncScalar: built without TENFOLD_WITH_CUDA, it cannot wait for a CUDA tensor");
    to.copy_(from);
    (void)behind;
#endif
  }
};

/// Hands out each value `delay` pushes after it was pushed. Copies: what copies; another one in tests.
template <class Copies>
class AsyncScalarBy {
 public:
  /// The host may get as many steps ahead of the device as there are pushes in `delay`. Throws c10::ValueError when
  /// that is less than 1.
  explicit AsyncScalarBy(int64_t delay = 2, Copies copies = {}) : copies_(std::move(copies)) {
    TORCH_CHECK_VALUE(delay >= 1, "AsyncScalar: a delay of ", delay, "; with less than 1 each push would wait");
    slots_.resize(static_cast<size_t>(delay));
  }

  /// Queues the copy of a tensor with one number, of any type; nothing of its graph is kept. Returns the value that
  /// was pushed `delay` pushes earlier, as long as there is one. Waits only for that value. Throws c10::ValueError for
  /// a tensor of another size.
  std::optional<double> push(const torch::Tensor& scalar) {
    TORCH_CHECK_VALUE(scalar.numel() == 1, "AsyncScalar: push() takes one number, got a tensor of shape ",
                      scalar.sizes());
    const torch::NoGradGuard no_grad;
    std::optional<double> earlier;
    if (pushed_ - taken_ == delay()) earlier = take();                           // before its slot is filled again
    const torch::Tensor value = scalar.detach().to(torch::kDouble).reshape({});  // converted on its own device
    Slot& slot = slots_[static_cast<size_t>(pushed_ % delay())];
    if (!slot.value.defined() || slot.pinned != scalar.is_cuda()) {
      slot.value = torch::empty({}, torch::TensorOptions().dtype(torch::kDouble).pinned_memory(scalar.is_cuda()));
      slot.pinned = scalar.is_cuda();
    }
    copies_.copy(slot.value, value, slot.arrived);
    ++pushed_;
    return earlier;
  }

  /// What has been pushed and not yet handed out, in the order of the pushes; waits for it.
  std::vector<double> drain() {
    std::vector<double> rest;
    while (taken_ < pushed_) rest.push_back(take());
    return rest;
  }

 private:
  struct Slot {
    torch::Tensor value;  // in host memory
    bool pinned = false;
    typename Copies::Event arrived;
  };

  int64_t delay() const { return static_cast<int64_t>(slots_.size()); }

  double take() {
    const Slot& slot = slots_[static_cast<size_t>(taken_++ % delay())];
    slot.arrived.synchronize();
    return *slot.value.template const_data_ptr<double>();
  }

  Copies copies_;
  std::vector<Slot> slots_;  // in turn
  int64_t pushed_ = 0, taken_ = 0;
};

using AsyncScalar = AsyncScalarBy<CopiesToHost>;

}  // namespace tenfold
