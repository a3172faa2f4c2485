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

std::vector<torch::Tensor> tensors_on(torch::Device device, std::vector<torch::Tensor> tensors) {
  if (device.is_cpu()) return tensors;
  constexpr int64_t kAligned = 16;  // so that each part can be read as numbers of any type
  std::vector<int64_t> begins;
  int64_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) {
    begins.push_back(bytes);
    bytes += (static_cast<int64_t>(tensor.nbytes()) + kAligned - 1) / kAligned * kAligned;
  }
  const auto part_of = [&](const torch::Tensor& block, size_t i) {
    return block.narrow(0, begins[i], static_cast<int64_t>(tensors[i].nbytes()))
        .view(tensors[i].scalar_type())
        .view(tensors[i].sizes());
  };
  const torch::Tensor host = torch::empty({bytes}, torch::dtype(torch::kByte).pinned_memory(true));
  for (size_t i = 0; i < tensors.size(); ++i) part_of(host, i).copy_(tensors[i]);
  const torch::Tensor sent = host.to(device, /*non_blocking=*/true);
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i] = part_of(sent, i);
  return tensors;
}

}  // namespace tenfold
