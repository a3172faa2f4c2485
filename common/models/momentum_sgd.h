#pragma once
// The optimizer of a rank that has parts of the GPT, or a part of another shape: that of GptTraining, and its step.

#include <torch/torch.h>

#include <ATen/record_function.h>

#include <memory>
#include <vector>

namespace tenfold {

/// SGD with momentum 0.9, as GptTraining has it.
inline std::unique_ptr<torch::optim::Optimizer> sgd(const std::vector<torch::Tensor>& parameters, double rate) {
  return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(rate).momentum(0.9));
}

/// An update by the gradients. Region "optimizer".
inline void optimizer_step(torch::optim::Optimizer& optimizer) {
  RECORD_USER_SCOPE("optimizer");
  optimizer.step();
}

}  // namespace tenfold
