#include "kernel_counts_json.h"

namespace tenfold::simt {

nlohmann::json json_of(const KernelCounts& kernel) {
  nlohmann::json json = {{"symbol", kernel.symbol},
                         {"launches", kernel.launches},
                         {"grid_blocks", kernel.grid_blocks},
                         {"blocks", kernel.blocks},
                         {"warps", kernel.warps},
                         {"threads_of_block", kernel.threads_of_block},
                         {"shared_bytes", kernel.shared_bytes},
                         {"accesses", nlohmann::json::array()},
                         {"operations", nlohmann::json::array()},
                         {"lines", nlohmann::json::array()},
                         {"touches", nlohmann::json::object()},
                         {"reads_again", nlohmann::json::array()}};
  for (const auto& access : kernel.accesses) {
    json["accesses"].push_back({{"where", text_of(access.where)},
                                {"space", name_of(access.space)},
                                {"kind", name_of(access.kind)},
                                {"bytes", access.bytes},
                                {"requests", access.requests},
                                {"lanes", access.lanes},
                                {"sectors", access.sectors},
                                {"lines", access.lines},
                                {"wavefronts", access.wavefronts}});
  }
  for (const auto& operation : kernel.operations)
    json["operations"].push_back(
        {{"where", text_of(operation.where)}, {"name", operation.name}, {"count", operation.count}});
  for (const auto& line : kernel.lines)
    json["lines"].push_back({{"where", text_of(line.where)}, {"issues", line.issues}, {"lanes", line.lanes}});
  for (const auto& [buffer, touches] : kernel.touches)
    json["touches"][buffer] = {{"bytes", touches.bytes},
                               {"first_reads", touches.first_reads},
                               {"stores", touches.stores},
                               {"written", touches.written}};
  for (size_t i = 0; i < kernel.reads_again.size(); ++i)
    if (kernel.reads_again[i] > 0) json["reads_again"].push_back({reuse_bytes(i), kernel.reads_again[i]});
  return json;
}

nlohmann::json gpus_json() {
  nlohmann::json all = nlohmann::json::array();
  for (const GpuCeilings& gpu : known_gpus()) {
    all.push_back({{"key", gpu.key},
                   {"name", gpu.name},
                   {"sms", gpu.sms},
                   {"clock_hz", gpu.clock_hz},
                   {"flops_per_s", gpu.flops_per_s},
                   {"tensor_flops_per_s", gpu.tensor_flops_per_s},
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
                   {"dram_latency", gpu.dram_latency}});
  }
  return all;
}

}  // namespace tenfold::simt
