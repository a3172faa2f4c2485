#include "common/models/host_batch.h"

namespace tenfold {

torch::Tensor rows_on(torch::Device device, const torch::Tensor& rows, const torch::Tensor& picked) {
  if (device.is_cpu()) return rows.index_select(0, picked);
  std::vector<int64_t> sizes = rows.sizes().vec();
  sizes[0] = picked.size(0);
  torch::Tensor batch = torch::empty(sizes, rows.options().pinned_memory(true));
  at::index_select_out(batch, rows, 0, picked);
  return batch.to(device, /*non_blocking=*/true);
}

torch::Tensor tensor_on(torch::Device device, const torch::Tensor& tensor) {
  return device.is_cpu() ? tensor : tensor.pin_memory().to(device, /*non_blocking=*/true);
}

}  // namespace tenfold
