#pragma once
// Your answer to exercise 51. Build and check it with: ./tenfold exercise 51
#include <torch/torch.h>

#include <functional>

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
  // Hint: inputs.chunk(replicas) are the replicas' rows.
  // Hint: weight.detach().clone().requires_grad_() is a replica's copy; after backward() its gradient is in .grad().
  (void)inputs, (void)targets, (void)replicas, (void)rate, (void)loss_of, (void)sum;
  return loss;
}
