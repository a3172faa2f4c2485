// installs as <tenfold/capturable_adamw.h>
#pragma once
// AdamW with its step number on the device.
//
// torch::optim::AdamW computes the bias corrections on the host, from a step number that the host counts. A graph keeps
// them as they were at the capture. Here they are computed by the device, from a number in its memory, as PyTorch's
// AdamW(capturable=True) does.
// Source: I. Loshchilov, F. Hutter, Decoupled Weight Decay Regularization, 2019 (arXiv:1711.05101), algorithm 2.

#include <torch/torch.h>

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace tenfold {

/// Updates parameters that have gradients, on one device. Ten operators for each tensor.
class CapturableAdamW {
 public:
  CapturableAdamW(std::vector<torch::Tensor> parameters, const torch::optim::AdamWOptions& options)
      : parameters_(std::move(parameters)), options_(options) {
    for (const torch::Tensor& parameter : parameters_) {
      averages_.push_back(torch::zeros_like(parameter));
      square_averages_.push_back(torch::zeros_like(parameter));
    }
    // In double: 1 - 0.999 is a small difference, and one number costs nothing.
    steps_ = torch::zeros({}, parameters_.at(0).options().dtype(torch::kDouble).requires_grad(false));
  }

  void step() {
    const torch::NoGradGuard no_grad;
    const auto [beta1, beta2] = options_.betas();
    const double rate = options_.lr();
    steps_ += 1;
    const torch::Tensor root_correction = (1 - torch::pow(beta2, steps_)).sqrt();
    const torch::Tensor per_rate = (1 - torch::pow(beta1, steps_)) / rate;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const torch::Tensor& gradient = parameters_[i].grad();
      parameters_[i].mul_(1 - rate * options_.weight_decay());
      averages_[i].mul_(beta1).add_(gradient, 1 - beta1);
      square_averages_[i].mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
      const torch::Tensor denominator =
          square_averages_[i].sqrt().div_(root_correction).add_(options_.eps()).mul_(per_rate);
      parameters_[i].addcdiv_(averages_[i], denominator, -1);
    }
  }

 private:
  std::vector<torch::Tensor> parameters_, averages_, square_averages_;
  torch::Tensor steps_;  // one number
  torch::optim::AdamWOptions options_;
};

}  // namespace tenfold
