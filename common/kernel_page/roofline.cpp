#include "common/kernel_page/roofline.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>

namespace tenfold::simt {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

const std::vector<GpuCeilings>& known_gpus() {
  // Shared memory: 32 banks of 4 bytes per clock and SM (CUDA C++ Programming Guide, "Shared Memory"), but half of that
  // on Turing ("NVIDIA Ampere GA102 GPU Architecture" whitepaper: 128 bytes/clock per SM against 64 in Turing).
  static const std::vector<GpuCeilings> gpus = {
      // "NVIDIA T4 Tensor Core GPU" data sheet: 8.1 and 65 TFLOPS, 320 GB/s; product brief PB-09256-001: 40 SMs, boost
      // 1590 MHz.
      {.key = "T4",
       .name = "NVIDIA T4",
       .sms = 40,
       .clock_hz = 1.59e9,
       .flops_per_s = 8.1e12,
       .tensor_flops_per_s = 65e12,
       .dram_bytes_per_s = 320e9,
       .l2_source = "",
       .shared_bytes_per_clock = 64},
      // "NVIDIA Tesla V100 GPU Architecture" whitepaper, table 1; L2: the A100's whitepaper, "A100 L2 Cache".
      {.key = "V100",
       .name = "NVIDIA V100 SXM2",
       .sms = 80,
       .clock_hz = 1.53e9,
       .flops_per_s = 15.7e12,
       .tensor_flops_per_s = 125e12,
       .dram_bytes_per_s = 900e9,
       .l2_bytes_per_clock = 2048,
       .l2_source = "NVIDIA A100 whitepaper"},
      // "NVIDIA A100 Tensor Core GPU" data sheet (SXM 80GB: 19.5 and 312 TFLOPS, 2039 GB/s); SMs, clock and L2:
      // "NVIDIA A100 Tensor Core GPU Architecture" whitepaper, table 4 and "A100 L2 Cache".
      {.key = "A100",
       .name = "NVIDIA A100 SXM 80GB",
       .sms = 108,
       .clock_hz = 1.41e9,
       .flops_per_s = 19.5e12,
       .tensor_flops_per_s = 312e12,
       .dram_bytes_per_s = 2039e9,
       .l2_bytes_per_clock = 5120,
       .l2_source = "NVIDIA A100 whitepaper"},
      // "NVIDIA L4 Tensor Core GPU" data sheet: 30.3 and 121 TFLOPS (half of what it gives with sparsity), 300 GB/s;
      // product brief PB-11316-001: 58 SMs, boost 2040 MHz.
      {.key = "L4",
       .name = "NVIDIA L4",
       .sms = 58,
       .clock_hz = 2.04e9,
       .flops_per_s = 30.3e12,
       .tensor_flops_per_s = 121e12,
       .dram_bytes_per_s = 300e9,
       .l2_source = ""},
      // "NVIDIA Ada GPU Architecture" whitepaper, table of GeForce RTX 4090.
      {.key = "RTX4090",
       .name = "NVIDIA GeForce RTX 4090",
       .sms = 128,
       .clock_hz = 2.52e9,
       .flops_per_s = 82.6e12,
       .tensor_flops_per_s = 165.2e12,
       .dram_bytes_per_s = 1008e9,
       .l2_source = ""},
      // "NVIDIA H100 Tensor Core GPU" data sheet (SXM: 67 and 989.4 TFLOPS, 3.35 TB/s); 132 SMs: "NVIDIA H100 Tensor
      // Core GPU Architecture" whitepaper; the clock is what 67 TFLOPS need of 132 * 128 lanes. NVIDIA gives no L2
      // figure: Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture", arXiv:2402.13499, table
      // V,
      // measured 4472 bytes per clock on an H800 PCIe, which is the same chip with fewer SMs.
      {.key = "H100",
       .name = "NVIDIA H100 SXM 80GB",
       .sms = 132,
       .clock_hz = 1.98e9,
       .flops_per_s = 66.9e12,
       .tensor_flops_per_s = 989.4e12,
       .dram_bytes_per_s = 3350e9,
       .l2_bytes_per_clock = 4472,
       .l2_source = "arXiv:2402.13499, on an H800"},
  };
  return gpus;
}

const GpuCeilings& gpu_named(const std::string& key) {
  std::string all;
  for (const GpuCeilings& gpu : known_gpus()) {
    if (lower(gpu.key) == lower(key)) return gpu;
    all += (all.empty() ? "" : ", ") + gpu.key;
  }
  throw std::invalid_argument("--gpu " + key + ": no such GPU in the table; there are: " + all);
}

Roofline roofline(const GpuCeilings& gpu, const Report& report, double flops) {
  Roofline model;
  model.gpu = gpu.key;
  const auto add = [&](const char* name, const char* unit, double amount, double ceiling) {
    model.parts.push_back({name, unit, amount, ceiling, amount / ceiling});
  };
  const auto dram_bytes = static_cast<double>(report.unique_bytes_read + report.unique_bytes_written);
  add("DRAM", "bytes", dram_bytes, gpu.dram_bytes_per_s);
  if (gpu.l2_bytes_per_clock > 0) add("L2", "bytes", static_cast<double>(report.sectors()) * 32, gpu.l2_bytes_per_s());
  add("shared memory", "wavefronts", static_cast<double>(report.wavefronts()), gpu.wavefronts_per_s());
  const auto on_tensor_cores = static_cast<double>(report.tensor_flops);
  add("arithmetic", "flop", std::max(0.0, flops - on_tensor_cores), gpu.flops_per_s);
  if (on_tensor_cores > 0) add("tensor cores", "flop", on_tensor_cores, gpu.tensor_flops_per_s);
  const auto slowest =
      std::max_element(model.parts.begin(), model.parts.end(),
                       [](const RooflinePart& a, const RooflinePart& b) { return a.seconds < b.seconds; });
  model.bound = slowest->name;
  model.seconds = slowest->seconds;
  if (dram_bytes > 0) model.intensity = flops / dram_bytes;
  return model;
}

}  // namespace tenfold::simt
