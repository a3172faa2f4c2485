#include "common/machine/gpu_ceilings.h"

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
  // Threads, blocks and shared memory of an SM: "Technical Specifications per Compute Capability" of the same guide; L1
  // and L2: whitepapers of the architectures. mma.sync on Hopper: arXiv:2402.13499, "an average of 62.9 % of the peak".
  static const std::vector<GpuCeilings> gpus = {
      // "NVIDIA T4 Tensor Core GPU" data sheet: 8.1 and 65 TFLOPS, INT8 130 TOPS, 320 GB/s; product brief PB-09256-001:
      // 40 SMs, boost 1590 MHz. L2: Jia et al., "Dissecting the NVidia Turing T4 GPU via Microbenchmarking",
      // arXiv:1903.07486, 1280 GB/s, as Armbruster's text on matrix products computes with it (alexarmbr.github.io,
      // 2024-08-10).
      {.key = "T4",
       .name = "NVIDIA T4",
       .driver_names = {"Tesla T4"},
       .source = "NVIDIA T4 Tensor Core GPU data sheet",
       .sms = 40,
       .clock_hz = 1.59e9,
       .flops_per_s = 8.1e12,
       .tensor_flops_per_s = 65e12,
       .tensor_int8_per_s = 130e12,
       .dram_bytes_per_s = 320e9,
       .l2_bytes_per_clock = 805,
       .l2_source = "arXiv:1903.07486",
       .shared_bytes_per_clock = 64,
       .capability = "7.5",
       .most_threads = 1024,
       .most_blocks = 16,
       .shared_bytes = 64 << 10,
       .l1_bytes = 96 << 10,
       .l2_bytes = 4 << 20,
       .l1_latency = 32,
       .shared_latency = 19,
       .l2_latency = 188,
       .dram_latency = 188,
       .latency_source = "arXiv:1903.07486; DRAM as L2, which is too little"},
      // "NVIDIA A100 Tensor Core GPU" data sheet (SXM 80GB: 19.5 and 312 TFLOPS, INT8 624 TOPS, 2039 GB/s); SMs, clock
      // and L2: "NVIDIA A100 Tensor Core GPU Architecture" whitepaper, table 4 and "A100 L2 Cache".
      {.key = "A100",
       .name = "NVIDIA A100 SXM 80GB",
       .driver_names = {"NVIDIA A100-SXM4-80GB"},
       .source = "NVIDIA A100 Tensor Core GPU data sheet",
       .sms = 108,
       .clock_hz = 1.41e9,
       .flops_per_s = 19.5e12,
       .tensor_flops_per_s = 312e12,
       .tensor_int8_per_s = 624e12,
       .dram_bytes_per_s = 2039e9,
       .l2_bytes_per_clock = 5120,
       .l2_source = "NVIDIA A100 whitepaper",
       .capability = "8.0",
       .most_threads = 2048,
       .most_blocks = 32,
       .shared_bytes = 164 << 10,
       .l1_bytes = 192 << 10,
       .l2_bytes = 40 << 20,
       .l1_latency = 37.9,
       .shared_latency = 29.0,
       .l2_latency = 261.5,
       .dram_latency = 466.3,
       .latency_source = "arXiv:2402.13499, table IV"},
      // "NVIDIA RTX A6000" data sheet: 38.7 TFLOPS, 768 GB/s, 309.7 TFLOPS with sparsity; "NVIDIA Ampere GA102 GPU
      // Architecture" whitepaper: 84 SMs, boost 1800 MHz, L1 of 128 KB, L2 of 6 MB, INT8 309.7 TOPS without sparsity.
      // Huerta et al., "Dissecting and Modeling the Architecture of Modern GPU Cores", arXiv:2503.20481, measured GPUs
      // of this chip: section 5.4, "a memory request every two cycles"; L1 and shared memory for 32 bits a thread in
      // table 2.
      {.key = "A6000",
       .name = "NVIDIA RTX A6000",
       .driver_names = {"NVIDIA RTX A6000"},
       .source = "NVIDIA RTX A6000 data sheet",
       .sms = 84,
       .clock_hz = 1.8e9,
       .flops_per_s = 38.7e12,
       .tensor_flops_per_s = 154.8e12,
       .tensor_int8_per_s = 309.7e12,
       .dram_bytes_per_s = 768e9,
       .l2_source = "",
       .request_clocks = 2,
       .capability = "8.0",  // whose code it runs
       .most_threads = 1536,
       .most_blocks = 16,
       .shared_bytes = 100 << 10,
       .l1_bytes = 128 << 10,
       .l2_bytes = 6 << 20,
       .l1_latency = 32,
       .shared_latency = 24,
       .l2_latency = 261.5,
       .dram_latency = 466.3,
       .latency_source = "arXiv:2503.20481, table 2; L2 and DRAM those of the A100, in arXiv:2402.13499, table IV"},
      // "NVIDIA H100 Tensor Core GPU" data sheet (SXM: 67 and 989.4 TFLOPS, INT8 and FP8 1978.9, 3.35 TB/s); 132 SMs:
      // "NVIDIA H100 Tensor Core GPU Architecture" whitepaper; the clock is what 67 TFLOPS need of 132 * 128 lanes, and
      // 1.83 GHz what 989.4 need of 132 * 4096 FLOP. NVIDIA gives no L2 figure: Luo et al., "Benchmarking and
      // Dissecting the Nvidia Hopper GPU Architecture", arXiv:2402.13499, table V, measured 4472 bytes per clock on an
      // H800 PCIe, which is the same chip with 114 SMs: by SMs, 5178. No ceiling: it is what loads reached.
      {.key = "H100",
       .name = "NVIDIA H100 SXM 80GB",
       .driver_names = {"NVIDIA H100 80GB HBM3"},
       .source = "NVIDIA H100 Tensor Core GPU data sheet",
       .sms = 132,
       .clock_hz = 1.98e9,
       .tensor_clock_hz = 1.83e9,
       .flops_per_s = 66.9e12,
       .tensor_flops_per_s = 989.4e12,
       .tensor_int8_per_s = 1978.9e12,
       .tensor_fp8_per_s = 1978.9e12,
       .dram_bytes_per_s = 3350e9,
       .l2_bytes_per_clock = 5178,
       .l2_source = "arXiv:2402.13499, on an H800, by SMs",
       .capability = "9.0",
       .most_threads = 2048,
       .most_blocks = 32,
       .shared_bytes = 228 << 10,
       .l1_bytes = 256 << 10,
       .l2_bytes = 50 << 20,
       .l1_latency = 40.7,
       .shared_latency = 29.0,
       .l2_latency = 263.0,
       .dram_latency = 478.8,
       .latency_source = "arXiv:2402.13499, table IV, on an H800",
       .mma_share = 0.629},
      // "NVIDIA H200 Tensor Core GPU" data sheet (SXM: 67 and 989 TFLOPS, INT8 and FP8 1979, 4.8 TB/s); the chip is the
      // H100's.
      {.key = "H200",
       .name = "NVIDIA H200 SXM 141GB",
       .driver_names = {"NVIDIA H200"},
       .source = "NVIDIA H200 Tensor Core GPU data sheet",
       .sms = 132,
       .clock_hz = 1.98e9,
       .tensor_clock_hz = 1.83e9,
       .flops_per_s = 66.9e12,
       .tensor_flops_per_s = 989.4e12,
       .tensor_int8_per_s = 1978.9e12,
       .tensor_fp8_per_s = 1978.9e12,
       .dram_bytes_per_s = 4800e9,
       .l2_bytes_per_clock = 5178,
       .l2_source = "arXiv:2402.13499, on an H800, by SMs",
       .capability = "9.0",
       .most_threads = 2048,
       .most_blocks = 32,
       .shared_bytes = 228 << 10,
       .l1_bytes = 256 << 10,
       .l2_bytes = 50 << 20,
       .l1_latency = 40.7,
       .shared_latency = 29.0,
       .l2_latency = 263.0,
       .dram_latency = 478.8,
       .latency_source = "arXiv:2402.13499, table IV, on an H800",
       .mma_share = 0.629},
  };
  return gpus;
}

const std::vector<GpuCeilings>& ladder_gpus() {
  static const std::vector<GpuCeilings> gpus = [] {
    // "NVIDIA Ampere GA102 GPU Architecture" whitepaper, GeForce RTX 3090: 82 SMs, boost 1695 MHz, 35.6 TFLOPS, 71 with
    // sums in float32, INT8 284 TOPS, 936 GB/s, L2 of 6 MB; all else is of the chip, as for the A6000.
    GpuCeilings rtx_3090 = gpu_named("A6000");
    rtx_3090.key = "RTX3090";
    rtx_3090.name = "NVIDIA GeForce RTX 3090";
    rtx_3090.driver_names = {"NVIDIA GeForce RTX 3090"};
    rtx_3090.source = "NVIDIA Ampere GA102 whitepaper";
    rtx_3090.sms = 82;
    rtx_3090.clock_hz = 1.695e9;
    rtx_3090.flops_per_s = 35.6e12;
    rtx_3090.tensor_flops_per_s = 71e12;
    rtx_3090.tensor_int8_per_s = 284e12;
    rtx_3090.dram_bytes_per_s = 936e9;
    // "NVIDIA A100 Tensor Core GPU Architecture" whitepaper, table 4: 1555 GB/s.
    GpuCeilings a100 = gpu_named("A100");
    a100.key = "A100-40GB";
    a100.name = "NVIDIA A100 40GB";
    a100.driver_names = {"NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB"};
    a100.source = "NVIDIA A100 whitepaper";
    a100.dram_bytes_per_s = 1555e9;
    return std::vector<GpuCeilings>{rtx_3090, a100};
  }();
  return gpus;
}

const GpuCeilings& gpu_named(const std::string& key) {
  std::string all;
  for (const GpuCeilings& gpu : known_gpus()) {
    if (lower(gpu.key) == lower(key)) return gpu;
    all += (all.empty() ? "" : ", ") + gpu.key;
  }
  throw std::invalid_argument("no such GPU in the table: " + key + "; there are: " + all);
}

const GpuCeilings* gpu_of_driver(const std::string& name) {
  const auto found = std::ranges::find_if(known_gpus(), [&](const GpuCeilings& gpu) {
    return std::ranges::find(gpu.driver_names, name) != gpu.driver_names.end();
  });
  return found == known_gpus().end() ? nullptr : &*found;
}

}  // namespace tenfold::simt
