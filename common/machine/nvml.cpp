#include "common/machine/nvml.h"

#include <dlfcn.h>

#include <array>
#include <utility>

namespace tenfold {
namespace {

// The few declarations needed, from the NVML API reference. Handles are opaque and enums are ints.
using Device = void*;
struct MemoryInfo {
  unsigned long long total, free, used;
};
constexpr int kClockSm = 1, kClockMemory = 2;
constexpr int kActive = 1, kGpuTemperature = 0;
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
  if (nvml.call("nvmlDeviceGetMaxPcieLinkGeneration", device, &generation) &&
      nvml.call("nvmlDeviceGetMaxPcieLinkWidth", device, &width)) {
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
  if (nvml.call("nvmlSystemGetDriverVersion", version.data(), static_cast<unsigned>(version.size())))
    report.driver = version.data();
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

std::string slowdown_text(uint64_t slowed_by) {
  // nvmlClocksEventReasons: software power cap; hardware slowdown; software and hardware thermal; power brake.
  constexpr std::pair<uint64_t, const char*> kReasons[] = {{0x04, "power cap"},
                                                           {0x08, "hardware slowdown"},
                                                           {0x20, "heat"},
                                                           {0x40, "heat, by hardware"},
                                                           {0x80, "power brake"}};
  std::string text;
  for (const auto& [bit, name] : kReasons) {
    if ((slowed_by & bit) != 0) text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

struct GpuMonitor::Opened {
  Library nvml;
  bool initialised = false;
  Device device = nullptr;
};

GpuMonitor::GpuMonitor(const std::string& pci_bus_id) : opened_(std::make_unique<Opened>()) {
  const Library& nvml = opened_->nvml;
  if (!nvml.handle) return;
  opened_->initialised = nvml.call("nvmlInit_v2");
  if (opened_->initialised && !nvml.call("nvmlDeviceGetHandleByPciBusId_v2", pci_bus_id.c_str(), &opened_->device))
    opened_->device = nullptr;
}

GpuMonitor::~GpuMonitor() {
  if (opened_->initialised) opened_->nvml.call("nvmlShutdown");
}

std::optional<GpuState> GpuMonitor::read() const {
  if (opened_->device == nullptr) return std::nullopt;
  GpuState state;
  const auto get = [&](double& to, const char* function, auto... of_what) {
    unsigned value = 0;
    if (opened_->nvml.call(function, opened_->device, of_what..., &value)) to = value;
  };
  get(state.sm_mhz, "nvmlDeviceGetClockInfo", kClockSm);
  get(state.memory_mhz, "nvmlDeviceGetClockInfo", kClockMemory);
  get(state.temperature_c, "nvmlDeviceGetTemperature", kGpuTemperature);
  get(state.power_w, "nvmlDeviceGetPowerUsage");
  state.power_w /= 1000;  // milliwatts
  unsigned long long reasons = 0;
  if (opened_->nvml.call("nvmlDeviceGetCurrentClocksThrottleReasons", opened_->device, &reasons))
    state.slowed_by = reasons;
  return state;
}

}  // namespace tenfold
