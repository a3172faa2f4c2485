// installs as <tenfold/capturable_adamw.h>
#pragma once
// AdamW with its step number and its learning rate on the device.
//
// torch::optim::AdamW computes the bias corrections on the host, from a step number that the host counts, and passes
// the learning rate as a number. A graph keeps both as they were at the capture. Here the device reads them from its
// memory, as with PyTorch's AdamW(capturable=True) and a learning rate that is a tensor. Source: I. Loshchilov, F.
// Hutter, Decoupled Weight Decay Regularization, 2019 (arXiv:1711.05101), algorithm 2.

#include <torch/torch.h>

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace tenfold {

/// Updates parameters of one device, ten operators for each tensor. Those without a gradient stay as they are; the
/// others share one step number, so they should be the same in each step, as they are in a graph.
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
    rate_ = torch::full_like(steps_, options.lr());
  }

  /// For the steps from now on, replayed ones too: a schedule calls it outside of the graph. Queued on the current
  /// stream.
  void set_rate(double rate) { rate_.fill_(rate); }

  void step() {
    const torch::NoGradGuard no_grad;
    const auto [beta1, beta2] = options_.betas();
    steps_ += 1;
    const torch::Tensor root_correction = (1 - torch::pow(beta2, steps_)).sqrt();
    const torch::Tensor per_rate = (1 - torch::pow(beta1, steps_)) / rate_;
    const torch::Tensor decay = 1 - rate_ * options_.weight_decay();
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const torch::Tensor& gradient = parameters_[i].grad();
      if (!gradient.defined()) continue;
      parameters_[i].mul_(decay);
      averages_[i].mul_(beta1).add_(gradient, 1 - beta1);
      square_averages_[i].mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
      const torch::Tensor denominator =
          square_averages_[i].sqrt().div_(root_correction).add_(options_.eps()).mul_(per_rate);
      parameters_[i].addcdiv_(averages_[i], denominator, -1);
    }
  }

 private:
  std::vector<torch::Tensor> parameters_, averages_, square_averages_;
  torch::Tensor steps_, rate_;  // one number each
  torch::optim::AdamWOptions options_;
};

}  // namespace tenfold
