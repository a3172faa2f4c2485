#pragma once
// Peak and live memory of tensors: a counting allocator on the CPU, the caching allocator's statistics on CUDA.

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tenfold {

/// While it lives, CPU tensors are allocated through a counting allocator. Counts the bytes that were allocated under
/// it, including those freed after it is gone. Nests. Not for timed code: it costs some 30 ns an allocation.
class CountCpuMemory {
 public:
  CountCpuMemory();
  ~CountCpuMemory();
  CountCpuMemory(const CountCpuMemory&) = delete;
  CountCpuMemory& operator=(const CountCpuMemory&) = delete;

 private:
  c10::Allocator* previous_;
};

/// Bytes of live tensors: on the CPU those counted, on CUDA those that were requested of the caching allocator on that
/// device. What it hands out for a request depends on which blocks it has cached, by up to 1 MiB a tensor; what is
/// requested depends on the step alone.
int64_t live_bytes(torch::Device device);
/// Largest live_bytes since the last reset.
int64_t peak_bytes(torch::Device device);
void reset_peak(torch::Device device);
/// Peaks by kind: "allocated"; on CUDA also "requested", which peak_bytes() is, and "reserved" from the driver.
std::map<std::string, int64_t> peaks(torch::Device device);

/// Memory of some devices beyond what they hold when it is made; of several the fullest counts.
class MemoryWatch {
 public:
  /// Gives the devices' cached memory back, and counts from here.
  explicit MemoryWatch(const std::vector<torch::Device>& devices);

  void reset_peaks() const;
  int64_t live_bytes() const;
  /// By kind, since the last reset; "reserved" is all that the device has reserved.
  std::map<std::string, int64_t> peaks() const;

 private:
  struct Device {
    torch::Device device;
    int64_t live;
    std::map<std::string, int64_t> peaks;
  };
  std::vector<Device> devices_;
};

/// Total memory of the device in bytes (of the machine, for the CPU).
int64_t device_memory_bytes(torch::Device device);
/// What of it can be had now: free, or kept by the allocator and not in use. On a CPU all of it.
int64_t free_memory_bytes(torch::Device device);
/// Gives cached memory back, so that the next measurement starts clean. Nothing to do on the CPU.
void release_cached_memory(torch::Device device);
/// Waits for all work queued on the device. Nothing to do on the CPU.
void synchronize(torch::Device device);

// What fix_malloc_thresholds() sets, in bytes. 32 MiB is the largest threshold for a mapping of its own that glibc
// accepts; larger blocks are mapped and unmapped at each use regardless.
inline constexpr int kMmapThreshold = 32 << 20, kTrimThreshold = 2000 << 20, kTopPad = 64 << 20;

/// Fixed malloc thresholds: without them glibc adapts during the first seconds, and early blocks pay for page faults
/// that later ones do not. Call once, before anything large is allocated. Recorded in result files as MALLOC_*.
void fix_malloc_thresholds();

}  // namespace tenfold
