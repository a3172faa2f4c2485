#include <tenfold/nvml.h>

#include <dlfcn.h>

#include <array>
#include <memory>

namespace tenfold {
namespace {

// The few declarations needed, from the NVML API reference. Handles are opaque and enums are ints.
using Device = void*;
struct MemoryInfo {
  unsigned long long total, free, used;
};
constexpr int kClockSm = 1, kClockMemory = 2;
constexpr int kActive = 1;
constexpr unsigned kMostNvLinks = 18;

struct Library {
  void* handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  ~Library() {
    if (handle) dlclose(handle);
  }
  /// Calls an NVML function; false when it is missing or reports an error.
  template <class... Args>
  bool call(const char* name, Args... args) const {
    auto* function = reinterpret_cast<int (*)(Args...)>(dlsym(handle, name));
    return function && function(args...) == 0;
  }
};

std::string link_of(const Library& nvml, Device device) {
  std::string link;
  unsigned generation = 0, width = 0;
  if (nvml.call("nvmlDeviceGetMaxPcieLinkGeneration", device, &generation) && nvml.call("nvmlDeviceGetMaxPcieLinkWidth", device, &width)) {
    link = "PCIe " + std::to_string(generation) + " x" + std::to_string(width);
  }
  unsigned active_links = 0;
  for (unsigned i = 0; i < kMostNvLinks; ++i) {
    int active = 0;
    if (nvml.call("nvmlDeviceGetNvLinkState", device, i, &active) && active == kActive) ++active_links;
  }
  if (active_links > 0) link += (link.empty() ? "" : ", ") + ("NVLink x" + std::to_string(active_links));
  return link;
}

Gpu describe(const Library& nvml, Device device) {
  Gpu gpu;
  std::array<char, 96> name{};
  if (nvml.call("nvmlDeviceGetName", device, name.data(), static_cast<unsigned>(name.size()))) gpu.name = name.data();
  MemoryInfo memory{};
  if (nvml.call("nvmlDeviceGetMemoryInfo", device, &memory)) gpu.memory_bytes = static_cast<int64_t>(memory.total);
  unsigned value = 0;
  if (nvml.call("nvmlDeviceGetClockInfo", device, kClockSm, &value)) gpu.clocks["sm"] = value;
  if (nvml.call("nvmlDeviceGetClockInfo", device, kClockMemory, &value)) gpu.clocks["memory"] = value;
  if (nvml.call("nvmlDeviceGetMaxClockInfo", device, kClockSm, &value)) gpu.clocks["sm_max"] = value;
  if (nvml.call("nvmlDeviceGetMaxClockInfo", device, kClockMemory, &value)) gpu.clocks["memory_max"] = value;
  if (nvml.call("nvmlDeviceGetEnforcedPowerLimit", device, &value)) gpu.power_limit_w = value / 1000.0;  // milliwatts
  gpu.link = link_of(nvml, device);
  return gpu;
}

}  // namespace

GpuReport read_gpus() {
  GpuReport report;
  const Library nvml;
  if (!nvml.handle) return report;
  if (!nvml.call("nvmlInit_v2")) {
    report.problem = "the NVIDIA management library is installed but cannot reach a driver";
    return report;
  }
  std::array<char, 96> version{};
  if (nvml.call("nvmlSystemGetDriverVersion", version.data(), static_cast<unsigned>(version.size()))) report.driver = version.data();
  int cuda = 0;
  if (nvml.call("nvmlSystemGetCudaDriverVersion_v2", &cuda))
    report.cuda = std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10);
  unsigned count = 0;
  if (!nvml.call("nvmlDeviceGetCount_v2", &count)) report.problem = "the driver does not list its GPUs";
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    if (!nvml.call("nvmlDeviceGetHandleByIndex_v2", i, &device)) continue;
    report.gpus.push_back(describe(nvml, device));
    int major = 0, minor = 0;
    nvml.call("nvmlDeviceGetCudaComputeCapability", device, &major, &minor);
    report.capabilities.push_back(std::to_string(major) + "." + std::to_string(minor));
  }
  nvml.call("nvmlShutdown");
  return report;
}

}  // namespace tenfold
