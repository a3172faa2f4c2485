#pragma once
// The kept solution of exercise 25; CI proves that it passes.
#include <torch/torch.h>

#include <functional>
#include <utility>
#include <vector>

/// A training step that could be captured as a CUDA graph: SGD, with the gradients' norm clipped. A replay would launch
/// what run() launches, with the same addresses, and nothing else.
class CapturableStep {
 public:
  using LossOf = std::function<torch::Tensor(const torch::Tensor& inputs, const torch::Tensor& targets)>;

  /// The parameters are changed in place; `loss_of` gives the mean loss of a batch.
  CapturableStep(std::vector<torch::Tensor> parameters, LossOf loss_of, double rate, double max_norm)
      : parameters_(std::move(parameters)), loss_of_(std::move(loss_of)), rate_(rate), max_norm_(max_norm) {
    for (torch::Tensor& parameter : parameters_) parameter.mutable_grad() = torch::zeros_like(parameter);
    loss_ = torch::zeros({}, parameters_[0].options().requires_grad(false));
  }

  /// Before each run(): the batch to train on, always of the same shapes. The caller may reuse its tensors afterwards.
  void load(const torch::Tensor& inputs, const torch::Tensor& targets) {
    if (!inputs_.defined()) {
      inputs_ = torch::empty_like(inputs);
      targets_ = torch::empty_like(targets);
    }
    inputs_.copy_(inputs);
    targets_.copy_(targets);
  }

  /// Forward, backward and update.
  void run() {
    for (torch::Tensor& parameter : parameters_) parameter.mutable_grad().zero_();
    torch::Tensor loss = loss_of_(inputs_, targets_);
    loss.backward();  // adds to the zeros, in place
    const torch::NoGradGuard no_grad;
    torch::Tensor sum = torch::zeros_like(loss_);
    for (const torch::Tensor& parameter : parameters_) sum += parameter.grad().square().sum();
    const torch::Tensor scale = (max_norm_ / sum.sqrt()).clamp_max(1);  // the device decides
    for (torch::Tensor& parameter : parameters_) parameter.sub_(parameter.grad() * scale, rate_);
    loss_.copy_(loss);
  }

  /// Of the last run. Always the same tensor, which each run overwrites.
  const torch::Tensor& loss() const { return loss_; }

 private:
  std::vector<torch::Tensor> parameters_;
  LossOf loss_of_;
  double rate_, max_norm_;
  torch::Tensor inputs_, targets_, loss_;
};
