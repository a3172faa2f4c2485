#pragma once
// Memory that runs out at a byte that we choose: on a CPU, whose own memory is too large to fill, and on a GPU, so that
// a small budget can be shown on a large one.

#include <torch/torch.h>

#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "common/measure/memory.h"

#ifdef TENFOLD_WITH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace tenfold {

/// While it lives, tensors on `device` may have `bytes` more than now. What would exceed them is refused with
/// c10::OutOfMemoryError, as by a GPU that is full. On a CPU it counts live tensors as CountCpuMemory does; it nests
/// with that, and is not for timed code either. On CUDA it limits what the caching allocator takes from the driver,
/// cached and fragmented blocks included; at its end the limit is the whole device again.
class ByteBudget {
 public:
  ByteBudget(torch::Device device, int64_t bytes) : device_(device) {
    TORCH_CHECK_VALUE(bytes > 0, "a budget of ", bytes, " bytes: it must be 1 or more");
    if (device.is_cpu()) {
      counting_.emplace();
      refusing_.counting = c10::GetCPUAllocator();
      refusing_.most = live_bytes(device) + bytes;
      c10::SetCPUAllocator(&refusing_, kHighest);
      return;
    }
    release_cached_memory(device);
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const auto stats = at::getDeviceAllocator(device.type())->getDeviceStats(device.has_index() ? device.index() : 0);
    limit_cuda(static_cast<double>(stats.reserved_bytes[kAll].current + bytes) /
               static_cast<double>(device_memory_bytes(device)));
  }
  ~ByteBudget() {
    if (device_.is_cpu()) {
      c10::SetCPUAllocator(refusing_.counting, kHighest);
    } else {
      limit_cuda(1);
    }
  }
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

 private:
  static constexpr uint8_t kHighest = 255;

  /// Hands on to the counting allocator what the budget allows. Blocks are freed by the counting allocator's own
  /// deleter, so they may outlive the budget.
  struct RefusingAllocator final : c10::Allocator {
    at::DataPtr allocate(size_t bytes) override {
      const int64_t live = live_bytes(torch::kCPU);
      TORCH_CHECK_WITH(OutOfMemoryError, live + static_cast<int64_t>(bytes) <= most, "tried to allocate ", bytes,
                       " bytes; ", live, " of ", most, " bytes are in use");
      return counting->allocate(bytes);
    }
    c10::DeleterFnPtr raw_deleter() const override { return counting->raw_deleter(); }
    void copy_data(void* target, const void* source, size_t bytes) const override {
      default_copy_data(target, source, bytes);
    }

    c10::Allocator* counting = nullptr;
    int64_t most = 0;
  };

  void limit_cuda([[maybe_unused]] double fraction) const {
#ifdef TENFOLD_WITH_CUDA
    c10::cuda::CUDACachingAllocator::setMemoryFraction(std::min(fraction, 1.0),
                                                       device_.has_index() ? device_.index() : c10::DeviceIndex{0});
#endif
  }

  torch::Device device_;
  std::optional<CountCpuMemory> counting_;
  RefusingAllocator refusing_;
};

}  // namespace tenfold
