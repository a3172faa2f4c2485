#pragma once
// How many gradients fp16 is too coarse for, with the loss as it is and with the loss scaled.

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "autocast.h"

namespace tenfold::inline lesson_21 {

/// Gradients of the first update: backward() from `scale` times the loss, the forward pass in fp16 or fp32.
inline std::vector<torch::Tensor> first_gradients(const Trial& trial, bool fp16, double scale) {
  torch::manual_seed(trial.seed);
  const Work work = trial.workload.make(trial);
  torch::Tensor loss;
  {
    const Autocast scope(trial.device.type(), torch::kHalf, fp16);
    loss = work.next_loss();
  }
  (loss * scale).backward();
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : work.parameters) gradients.push_back(parameter.value().grad());
  return gradients;
}

/// Of the gradient entries that are not zero in fp32: the part that is zero when backward() runs in fp16 from `scale`
/// times the loss.
inline double lost_gradients(const Trial& trial, double scale) {
  const std::vector<torch::Tensor> fp32 = first_gradients(trial, /*fp16=*/false, /*scale=*/1);
  const std::vector<torch::Tensor> fp16 = first_gradients(trial, /*fp16=*/true, scale);
  int64_t not_zero = 0;
  int64_t lost = 0;
  for (size_t i = 0; i < fp32.size(); ++i) {
    const torch::Tensor expected = fp32[i] != 0;
    not_zero += expected.sum().item<int64_t>();
    lost += (expected & (fp16[i] == 0)).sum().item<int64_t>();
  }
  return static_cast<double>(lost) / static_cast<double>(not_zero);
}

inline void note_lost_gradients(const Trial& trial, double scale) {
  trial.note("gradients lost to zero", 100 * lost_gradients(trial, scale), "%");
}

}  // namespace tenfold::inline lesson_21
