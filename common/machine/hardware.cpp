#include "common/machine/hardware.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/base/sha256.h"

namespace tenfold {
namespace {

constexpr double kMemoryTolerance = 0.02;
constexpr size_t kOwnDigits = 6;

/// Rounded up: the kernel keeps some of what is built in.
std::string gib_text(int64_t bytes) {
  return std::to_string(std::llround(std::ceil(static_cast<double>(bytes) / static_cast<double>(int64_t{1} << 30)))) +
         " GiB";
}

bool same_memory(int64_t a, int64_t b) {
  return std::abs(static_cast<double>(a - b)) <= kMemoryTolerance * static_cast<double>(std::max(a, b));
}

}  // namespace

std::string hardware_text(const Machine& machine) {
  std::string text = machine.cpu + ", " + std::to_string(machine.cores) + (machine.cores == 1 ? " core" : " cores") +
                     ", " + gib_text(machine.ram_bytes) + " memory";
  for (size_t i = 0; i < machine.gpus.size();) {
    const Gpu& gpu = machine.gpus[i];
    size_t end = i + 1;
    while (end < machine.gpus.size() && machine.gpus[end].name == gpu.name &&
           same_memory(machine.gpus[end].memory_bytes, gpu.memory_bytes))
      ++end;
    text += "; " + (end - i > 1 ? std::to_string(end - i) + " x " : "") + gpu.name + ", " + gib_text(gpu.memory_bytes);
    i = end;
  }
  return text;
}

bool same_hardware(const Machine& a, const Machine& b) {
  return a.cpu == b.cpu && a.cores == b.cores && same_memory(a.ram_bytes, b.ram_bytes) &&
         std::ranges::equal(a.gpus, b.gpus, [](const Gpu& x, const Gpu& y) {
           return x.name == y.name && same_memory(x.memory_bytes, y.memory_bytes);
         });
}

std::string own_id(const Machine& machine) { return own_id(machine.id, hardware_text(machine)); }

std::string own_id(const std::string& id, const std::string& hardware) {
  return id + "-" + sha256(hardware).substr(0, kOwnDigits);
}

}  // namespace tenfold
