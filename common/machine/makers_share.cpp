#include "common/machine/makers_share.h"

namespace tenfold {

const simt::GpuCeilings* card_of(const Machine& machine) {
  return machine.gpus.empty() || is_dry(machine) ? nullptr : simt::gpu_of_driver(machine.gpus.front().name);
}

std::optional<double> share_of_makers(const Machine& machine, const std::string& ceiling, double value) {
  const simt::GpuCeilings* card = card_of(machine);
  if (card == nullptr) return std::nullopt;
  if (ceiling == "cuda_copy_bytes_per_s") return value / card->dram_bytes_per_s;
  if (ceiling == "cuda_flops_fp32") return value / card->flops_per_s;
  // Turing's tensor cores know no bf16, and the table's figure is of fp16 there.
  if (ceiling == "cuda_flops_bf16" && card->capability != "7.5") return value / card->tensor_flops_per_s;
  return std::nullopt;
}

}  // namespace tenfold
