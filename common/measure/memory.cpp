#include "common/measure/memory.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <stdexcept>

#ifdef TENFOLD_WITH_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#endif

namespace tenfold {
namespace {

std::atomic<int64_t> live{0};
std::atomic<int64_t> peak{0};

void count(int64_t bytes) {
  const int64_t now = live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t seen = peak.load(std::memory_order_relaxed);
  while (now > seen && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
}

// Tensors outlive the allocator's installation, so the deleter alone must know the size: malloc does.
void free_counted(void* data) {
  if (data == nullptr) return;
  live.fetch_sub(static_cast<int64_t>(malloc_usable_size(data)), std::memory_order_relaxed);
  std::free(data);
}

class CountingAllocator final : public c10::Allocator {
 public:
  at::DataPtr allocate(size_t bytes) override {
    void* data = nullptr;
    if (bytes > 0) {
      if (posix_memalign(&data, c10::gAlignment, bytes) != 0) {
        TORCH_CHECK_WITH(OutOfMemoryError, false, "not enough memory for ", bytes, " bytes");
      }
      count(static_cast<int64_t>(malloc_usable_size(data)));
    }
    return {data, data, &free_counted, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_counted; }
  void copy_data(void* target, const void* source, size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }
};

CountingAllocator& counting_allocator() {
  static CountingAllocator allocator;
  return allocator;
}

[[maybe_unused]] [[noreturn]] void no_cuda() { throw std::runtime_error("this build has no CUDA support"); }

#ifdef TENFOLD_WITH_CUDA
const c10::CachingDeviceAllocator::Stat& total(const c10::CachingDeviceAllocator::StatArray& stats) {
  return stats[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
}
// "CUDA" without a number is the current device.
c10::DeviceIndex index_of(torch::Device device) {
  return device.has_index() ? device.index() : c10::cuda::current_device();
}
auto cuda_stats(torch::Device device) { return c10::cuda::CUDACachingAllocator::getDeviceStats(index_of(device)); }
#endif

}  // namespace

CountCpuMemory::CountCpuMemory() : previous_(c10::GetCPUAllocator()) {
  c10::SetCPUAllocator(&counting_allocator(), 255);
}
CountCpuMemory::~CountCpuMemory() { c10::SetCPUAllocator(previous_, 255); }

int64_t live_bytes(torch::Device device) {
  if (device.is_cpu()) return live.load();
#ifdef TENFOLD_WITH_CUDA
  return total(cuda_stats(device).requested_bytes).current;
#else
  no_cuda();
#endif
}

int64_t peak_bytes(torch::Device device) {
  if (device.is_cpu()) return peak.load();
#ifdef TENFOLD_WITH_CUDA
  return total(cuda_stats(device).requested_bytes).peak;
#else
  no_cuda();
#endif
}

void reset_peak(torch::Device device) {
  if (device.is_cpu()) {
    peak.store(live.load());
    return;
  }
#ifdef TENFOLD_WITH_CUDA
  c10::cuda::CUDACachingAllocator::resetPeakStats(index_of(device));
#else
  no_cuda();
#endif
}

std::map<std::string, int64_t> peaks(torch::Device device) {
  if (device.is_cpu()) return {{"allocated", peak_bytes(device)}};
#ifdef TENFOLD_WITH_CUDA
  const auto stats = cuda_stats(device);
  return {{"requested", total(stats.requested_bytes).peak},
          {"allocated", total(stats.allocated_bytes).peak},
          {"reserved", total(stats.reserved_bytes).peak}};
#else
  no_cuda();
#endif
}

int64_t device_memory_bytes(torch::Device device) {
  if (device.is_cpu()) return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
#ifdef TENFOLD_WITH_CUDA
  return static_cast<int64_t>(at::cuda::getDeviceProperties(index_of(device))->totalGlobalMem);
#else
  no_cuda();
#endif
}

int64_t free_memory_bytes(torch::Device device) {
  if (device.is_cpu()) return device_memory_bytes(device);
#ifdef TENFOLD_WITH_CUDA
  const c10::cuda::CUDAGuard guard(index_of(device));
  size_t free = 0, all = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &all));
  const auto stats = cuda_stats(device);
  return static_cast<int64_t>(free) + total(stats.reserved_bytes).current - total(stats.allocated_bytes).current;
#else
  no_cuda();
#endif
}

void release_cached_memory(torch::Device device) {
#ifdef TENFOLD_WITH_CUDA
  if (device.is_cuda()) c10::cuda::CUDACachingAllocator::emptyCache();
#else
  (void)device;
#endif
}

void synchronize(torch::Device device) {
#ifdef TENFOLD_WITH_CUDA
  if (!device.is_cuda()) return;
  const c10::cuda::CUDAGuard guard(index_of(device));  // it waits for the current device
  c10::cuda::device_synchronize();
#else
  (void)device;
#endif
}

void fix_malloc_thresholds() {
  mallopt(M_MMAP_THRESHOLD, kMmapThreshold);
  mallopt(M_TRIM_THRESHOLD, kTrimThreshold);
  mallopt(M_TOP_PAD, kTopPad);
}

MemoryWatch::MemoryWatch(const std::vector<torch::Device>& devices) {
  for (const torch::Device device : devices) {
    if (std::ranges::find(devices_, device, &Device::device) != devices_.end()) continue;  // a CPU stands for several
    release_cached_memory(device);
    reset_peak(device);
    std::map<std::string, int64_t> before = tenfold::peaks(device);
    before.erase("reserved");
    devices_.push_back({device, tenfold::live_bytes(device), std::move(before)});
  }
}

void MemoryWatch::reset_peaks() const {
  for (const Device& watched : devices_) reset_peak(watched.device);
}

int64_t MemoryWatch::live_bytes() const {
  int64_t most = 0;
  for (const Device& watched : devices_) most = std::max(most, tenfold::live_bytes(watched.device) - watched.live);
  return most;
}

std::map<std::string, int64_t> MemoryWatch::peaks() const {
  std::map<std::string, int64_t> most;
  for (const Device& watched : devices_) {
    for (auto [kind, bytes] : tenfold::peaks(watched.device)) {
      const auto before = watched.peaks.find(kind);
      if (before != watched.peaks.end()) bytes -= before->second;
      const auto [known, is_new] = most.try_emplace(kind, bytes);
      if (!is_new) known->second = std::max(known->second, bytes);
    }
  }
  return most;
}

}  // namespace tenfold
