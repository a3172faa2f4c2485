#pragma once
// Your answer to exercise 25. Build and check it with: ./tenfold exercise 25
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
      : parameters_(std::move(parameters)), loss_of_(std::move(loss_of)), rate_(rate), max_norm_(max_norm) {}

  /// Before each run(): the batch to train on, always of the same shapes. The caller may reuse its tensors afterwards.
  void load(const torch::Tensor& inputs, const torch::Tensor& targets) {
    // Hint: a replay reads the addresses of the capture. Where must the values of the next batch be?
    inputs_ = inputs;
    targets_ = targets;
  }

  /// Forward, backward and update.
  void run() {
    for (torch::Tensor& parameter : parameters_) parameter.mutable_grad() = torch::Tensor();
    torch::Tensor loss = loss_of_(inputs_, targets_);
    loss.backward();
    const torch::NoGradGuard no_grad;
    torch::Tensor sum = torch::zeros_like(loss);
    for (const torch::Tensor& parameter : parameters_) sum += parameter.grad().square().sum();
    const double norm = sum.sqrt().item<double>();
    const double scale = norm > max_norm_ ? max_norm_ / norm : 1;
    for (torch::Tensor& parameter : parameters_) parameter.sub_(parameter.grad() * scale, rate_);
    loss_ = loss.detach();
  }

  /// Of the last run. Always the same tensor, which each run overwrites.
  const torch::Tensor& loss() const { return loss_; }

 private:
  std::vector<torch::Tensor> parameters_;
  LossOf loss_of_;
  double rate_, max_norm_;
  torch::Tensor inputs_, targets_, loss_;
};
