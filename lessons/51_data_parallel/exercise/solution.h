#pragma once
// The kept solution of exercise 51; CI proves that it passes.
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <vector>

/// The mean loss over the rows of x (R, I) and y (R) with this weight (I); differentiable.
using LossOf =
    std::function<torch::Tensor(const torch::Tensor& weight, const torch::Tensor& x, const torch::Tensor& y)>;

/// One step of SGD by replicas, each of which has a copy of the weight (I) and its rows of the batch, inputs (B, I) and
/// targets (B). Changes the weight in place; returns the loss of the whole batch. B need not be divisible by
/// `replicas`, and may be smaller.
inline double replicated_step(const torch::Tensor& weight, const torch::Tensor& inputs, const torch::Tensor& targets,
                              int replicas, double rate, const LossOf& loss_of) {
  const torch::Tensor sum = torch::zeros_like(weight);  // of the replicas' gradients
  double loss = 0;
  const std::vector<torch::Tensor> x = inputs.chunk(replicas), y = targets.chunk(replicas);
  for (size_t i = 0; i < x.size(); ++i) {
    const torch::Tensor copy = weight.detach().clone().requires_grad_();
    const torch::Tensor own = loss_of(copy, x[i], y[i]);
    own.backward();
    const double share = static_cast<double>(x[i].size(0)) / static_cast<double>(inputs.size(0));
    sum.add_(copy.grad(), share);
    loss += share * own.item<double>();
  }
  const torch::NoGradGuard no_grad;
  weight.sub_(sum, rate);
  return loss;
}
