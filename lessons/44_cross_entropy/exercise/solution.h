#pragma once
// The kept solution of exercise 44; CI proves that it passes.
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <limits>

/// Cross-entropy of each row (N) of the logits `hidden` (N, D) times `weight` (V, D) transposed against `targets` (N),
/// never holding more logits than (N, chunk_classes). The last chunk may be smaller.
inline torch::Tensor losses_by_classes(const torch::Tensor& hidden, const torch::Tensor& weight,
                                       const torch::Tensor& targets, int64_t chunk_classes) {
  torch::Tensor largest = torch::full({hidden.size(0)}, -std::numeric_limits<double>::infinity(), hidden.options());
  torch::Tensor sum = torch::zeros({hidden.size(0)}, hidden.options());
  torch::Tensor of_target = torch::zeros({hidden.size(0)}, hidden.options());
  for (int64_t first = 0; first < weight.size(0); first += chunk_classes) {
    const int64_t classes = std::min(chunk_classes, weight.size(0) - first);
    torch::Tensor logits = at::mm(hidden, weight.narrow(0, first, classes).t());  // (N, classes)
    const torch::Tensor column = (targets - first).clamp(0, classes - 1).unsqueeze(1);
    const torch::Tensor here = (targets >= first) & (targets < first + classes);
    of_target = torch::where(here, logits.gather(1, column).squeeze(1), of_target);
    const torch::Tensor larger = torch::maximum(largest, logits.amax(1));
    sum.mul_((largest - larger).exp_());  // exp(-infinity) = 0 for the first chunk
    sum.add_(logits.sub_(larger.unsqueeze(1)).exp_().sum(1));
    largest = larger;
  }
  return sum.log() - (of_target - largest);
}
