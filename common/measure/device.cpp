#include "common/measure/device.h"

#include "common/base/text.h"
#include "common/measure/memory.h"

#ifdef TENFOLD_WITH_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace tenfold {

std::vector<std::string> visible_gpus() {
  std::vector<std::string> gpus;
#ifdef TENFOLD_WITH_CUDA
  for (c10::DeviceIndex i = 0; i < c10::cuda::device_count(); ++i) {
    std::string uuid;
    for (const char byte : at::cuda::getDeviceProperties(i)->uuid.bytes) {
      constexpr const char* kDigits = "0123456789abcdef";
      uuid += {kDigits[(byte >> 4) & 15], kDigits[byte & 15]};
    }
    gpus.push_back(uuid);
  }
#endif
  return gpus;
}

std::string why_no_gpu() {
#ifdef TENFOLD_WITH_CUDA
  try {
    c10::cuda::device_count_ensure_non_zero();
  } catch (const c10::Error& error) {
    return short_message(error.what_without_backtrace());
  }
  return "";
#else
  return "this build has no CUDA support";
#endif
}

void use_device(torch::Device device) {
#ifdef TENFOLD_WITH_CUDA
  if (device.is_cuda()) c10::cuda::set_device(device.index());
#else
  (void)device;
#endif
}

bool multiplies_bfloat16(torch::Device device) {
#ifdef TENFOLD_WITH_CUDA
  if (device.is_cuda()) {
    const c10::DeviceIndex index = device.has_index() ? device.index() : c10::cuda::current_device();
    return at::cuda::getDeviceProperties(index)->major >= 8;
  }
#endif
#ifdef __x86_64__
  return !device.is_cpu() || __builtin_cpu_supports("avx512bf16") != 0;
#else
  return !device.is_cpu();
#endif
}

bool still_works(torch::Device device) {
  try {
    synchronize(device);
  } catch (const c10::Error&) {
    return false;
  }
  return true;
}

std::string short_message(const std::string& text, int sentences) {
  std::string line = first_line(text);
  size_t end = 0;
  for (int i = 0; i < sentences; ++i) {
    end = line.find(". ", i == 0 ? 0 : end + 1);  // "2.50 GiB" ends no sentence
    if (end == std::string::npos) break;
  }
  line = line.substr(0, end);
  if (line.ends_with('.')) line.pop_back();
  return line;
}

}  // namespace tenfold
