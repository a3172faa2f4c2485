#pragma once
// GPUs as the driver describes them, through NVML loaded at run time: no build or link dependency.

#include <string>
#include <vector>

#include <tenfold/result.h>

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

}  // namespace tenfold
