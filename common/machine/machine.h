#pragma once
// A machine, as result files describe it.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tenfold {

struct Gpu {
  std::string name;
  int64_t memory_bytes = 0;
  std::map<std::string, double> clocks;  ///< MHz: "sm", "memory", "sm_max", "memory_max"
  std::optional<double> power_limit_w;
  std::string link;  ///< e.g. "PCIe 5 x16, NVLink 18"
};

/// Begins the id of a machine whose GPU is not there ("dry-h100"): nothing was measured on it.
inline constexpr const char* kDryMachine = "dry-";

struct Machine {
  std::string id;  ///< short, stable, safe as a folder name
  std::string cpu;
  int cores = 0;  ///< that this process may use
  std::optional<double> cpu_mhz;
  int64_t ram_bytes = 0;
  std::vector<Gpu> gpus;
  std::string driver, cuda, cudnn, nccl;  ///< empty when absent
  std::string libtorch, compiler, os;
  std::map<std::string, double> ceilings;  ///< measured by `tenfold probe`; e.g. "cpu_copy_bytes_per_s"
};

inline bool is_dry(const Machine& machine) { return machine.id.starts_with(kDryMachine); }

}  // namespace tenfold
