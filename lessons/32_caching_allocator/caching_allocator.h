// installs as <tenfold/caching_allocator.h>
#pragma once
// LibTorch's caching allocator of a GPU: its settings for a while, and what it has done.

#include <torch/torch.h>

#include <c10/core/AllocatorConfig.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <cstdint>
#include <exception>
#include <string>

namespace tenfold {

/// While it lives, the caching allocator has these settings, written as PYTORCH_ALLOC_CONF has them. What was allocated
/// before stays as it is. At the end those are back that the process was started with, and for the others nearly
/// LibTorch's defaults: garbage collection is off by default, but once on it can only be put off, to 0.999 of a limit.
/// Not for `backend`, which is read once, when the process begins.
class AllocatorSettings {
 public:
  explicit AllocatorSettings(const std::string& settings) : before_(c10::CachingAllocator::getAllocatorSettings()) {
    if (!settings.empty()) c10::CachingAllocator::setAllocatorSettings(settings);
    is_changed_ = !settings.empty();
  }
  ~AllocatorSettings() {
    if (!is_changed_) return;
    // A threshold of 1 or 0 is refused; above 0.999 of a limit nothing is collected that a retry would not.
    std::string settings =
        "expandable_segments:False,roundup_power2_divisions:1,garbage_collection_threshold:0.999,max_split_size_mb:"
        "17592186044415";
    if (!before_.empty()) settings += "," + before_;
    try {
      c10::CachingAllocator::setAllocatorSettings(settings);
    } catch (const std::exception& error) {  // a destructor that throws ends the process
      TORCH_WARN("AllocatorSettings: the settings from before are not back: ", error.what());
    }
  }
  AllocatorSettings(const AllocatorSettings&) = delete;
  AllocatorSettings& operator=(const AllocatorSettings&) = delete;

 private:
  std::string before_;
  bool is_changed_ = false;
};

/// What the caching allocator of a GPU has done since the process began, and its peaks since reset_peak().
struct AllocatorCounts {
  int64_t driver_calls =
      0;                ///< for a segment, cudaMalloc and cudaFree; with expandable segments, mappings and unmappings
  int64_t retries = 0;  ///< times that the card was full, and all unused segments were given back
  int64_t reserved_peak = 0, allocated_peak = 0, requested_peak = 0;  ///< bytes
  int64_t stranded = 0;  ///< bytes now: free, beside what is in use in a segment, which cannot be given back for it
};

/// Throws c10::Error for a device without a caching allocator.
inline AllocatorCounts allocator_counts(torch::Device device) {
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto stats = at::getDeviceAllocator(device.type())->getDeviceStats(device.has_index() ? device.index() : 0);
  return {.driver_calls = stats.num_device_alloc + stats.num_device_free,
          .retries = stats.num_alloc_retries,
          .reserved_peak = stats.reserved_bytes[kAll].peak,
          .allocated_peak = stats.allocated_bytes[kAll].peak,
          .requested_peak = stats.requested_bytes[kAll].peak,
          .stranded = stats.inactive_split_bytes[kAll].current};
}

}  // namespace tenfold
