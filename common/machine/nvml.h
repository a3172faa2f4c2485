#pragma once
// GPUs as the driver describes them, through NVML loaded at run time: no build or link dependency.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/machine/machine.h"

namespace tenfold {

struct GpuReport {
  std::string driver;  ///< version, e.g. "580.82.07"; empty when there is no driver
  std::string cuda;    ///< newest CUDA version the driver supports, e.g. "13.0"
  std::vector<Gpu> gpus;
  std::vector<std::string> capabilities;  ///< compute capability of each GPU, e.g. "9.0"
  std::string problem;                    ///< one sentence when NVML is there but does not work
};

/// What the driver reports now. Never throws: a machine without a driver gives an empty report.
GpuReport read_gpus();

/// What a GPU is doing at the moment.
struct GpuState {
  double sm_mhz = 0, memory_mhz = 0, temperature_c = 0, power_w = 0;
  uint64_t slowed_by = 0;  ///< NVML's bits of why the clock is below its highest; see slowdown_text()
};

/// The reasons that make times incomparable, in words: "power cap, heat"; empty when there is none. An idle GPU is no
/// reason.
std::string slowdown_text(uint64_t slowed_by);

/// One GPU's state, again and again. The library stays open, so that a look costs microseconds and no initialisation.
class GpuMonitor {
 public:
  /// "0000:65:00.0", as CUDA names a device: its number may differ from the driver's.
  explicit GpuMonitor(const std::string& pci_bus_id);
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;
  /// Empty where there is no driver, or no such GPU. What the driver does not tell stays 0.
  std::optional<GpuState> read() const;

 private:
  struct Opened;
  std::unique_ptr<Opened> opened_;
};

}  // namespace tenfold
