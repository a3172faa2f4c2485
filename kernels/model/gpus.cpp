// What is known of GPUs, as JSON for the model of a kernel's time: rates in bytes or operations a second, latencies in
// clocks. `paged`: it has a column on the pages.
#include <iostream>
#include <nlohmann/json.hpp>

#include "common/machine/gpu_ceilings.h"

namespace {

nlohmann::json json_of(const tenfold::simt::GpuCeilings& gpu, bool paged) {
  return {{"key", gpu.key},
          {"paged", paged},
          {"name", gpu.name},
          {"sms", gpu.sms},
          {"clock_hz", gpu.model_clock_hz()},
          {"flops_per_s", gpu.flops_per_s / gpu.clock_hz * gpu.model_clock_hz()},
          {"tensor_flops_per_s", gpu.tensor_flops_per_s},
          {"tensor_int8_per_s", gpu.tensor_int8_per_s},
          {"tensor_fp8_per_s", gpu.tensor_fp8_per_s > 0 ? gpu.tensor_fp8_per_s : gpu.tensor_flops_per_s},
          {"mma_share", gpu.mma_share},
          {"dram_bytes_per_s", gpu.dram_bytes_per_s},
          {"l2_bytes_per_s", gpu.l2_bytes_per_s()},
          {"wavefronts_per_clock", gpu.shared_bytes_per_clock / 128},
          {"request_clocks", gpu.request_clocks},
          {"capability", gpu.capability},
          {"most_threads", gpu.most_threads},
          {"most_blocks", gpu.most_blocks},
          {"shared_bytes", gpu.shared_bytes},
          {"l1_bytes", gpu.l1_bytes},
          {"l2_bytes", gpu.l2_bytes},
          {"l1_latency", gpu.l1_latency},
          {"shared_latency", gpu.shared_latency},
          {"l2_latency", gpu.l2_latency},
          {"dram_latency", gpu.dram_latency}};
}

}  // namespace

int main() {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& gpu : tenfold::simt::known_gpus()) all.push_back(json_of(gpu, /*paged=*/true));
  for (const auto& gpu : tenfold::simt::ladder_gpus()) all.push_back(json_of(gpu, /*paged=*/false));
  std::cout << all.dump(1) << "\n";
}
