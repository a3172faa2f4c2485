#pragma once
// The kept solution of exercise 30; CI proves that it passes.
#include <torch/torch.h>

#include <functional>
#include <utility>
#include <vector>

/// Leaves in the parameters' .grad() the gradient of the mean loss over all samples of all micro-batches, and returns
/// that mean. `mean_loss(inputs, targets)` gives the mean over the samples of one micro-batch (their number is
/// inputs.size(0)). Gradients are cleared by the caller.
inline torch::Tensor accumulate_uneven(
    const std::vector<std::pair<torch::Tensor, torch::Tensor>>& micro_batches,
    const std::function<torch::Tensor(const torch::Tensor&, const torch::Tensor&)>& mean_loss) {
  int64_t samples = 0;
  for (const auto& micro_batch : micro_batches) samples += micro_batch.first.size(0);
  torch::Tensor total = torch::zeros({});
  for (const auto& [inputs, targets] : micro_batches) {
    // A micro-batch of 4 among 10 samples has 4 / 10 of the mean.
    torch::Tensor loss =
        mean_loss(inputs, targets) * (static_cast<double>(inputs.size(0)) / static_cast<double>(samples));
    loss.backward();
    total += loss.detach();
  }
  return total;
}
