#pragma once
// SGD with momentum for all tensors in one operator. Lesson 45 does it for AdamW, and shows what it saves.

#include <torch/torch.h>

#include <utility>
#include <vector>

namespace tenfold::inline lesson_90 {

class FusedSgd {
 public:
  /// Momentum as torch::optim::SGD has it: no dampening, no decay of weights.
  FusedSgd(std::vector<torch::Tensor> parameters, double learning_rate, double momentum)
      : parameters_(std::move(parameters)), learning_rate_(learning_rate), momentum_(momentum) {
    for (const torch::Tensor& parameter : parameters_) velocities_.push_back(torch::zeros_like(parameter));
  }

  /// Every parameter must have a gradient.
  void step() {
    const torch::NoGradGuard no_graph;
    std::vector<torch::Tensor> gradients;
    for (const torch::Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
    at::_fused_sgd_(parameters_, gradients, velocities_, /*weight_decay=*/0, momentum_, learning_rate_, /*dampening=*/0,
                    /*nesterov=*/false, /*maximize=*/false, is_first_);
    is_first_ = false;
  }

 private:
  std::vector<torch::Tensor> parameters_, velocities_;
  double learning_rate_, momentum_;
  bool is_first_ = true;
};

}  // namespace tenfold::inline lesson_90
