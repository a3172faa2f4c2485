#pragma once
// The kept solution of exercise 56; CI proves that it passes.
#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <vector>

/// Ends a round of DiLoCo. `parameters` (n) are what this rank's own updates have made of them. `start` (n), where the
/// round began, and `velocity` (n), of the outer momentum, are equal on all ranks before and after; `parameters` are so
/// after. The outer optimizer is SGD with this rate and Nesterov's momentum.
inline void outer_step(const torch::Tensor& parameters, const torch::Tensor& start, const torch::Tensor& velocity,
                       double rate, double momentum, c10d::ProcessGroup& group) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> tensors{parameters.div_(group.getSize())};
  group.allreduce(tensors)->wait();
  const torch::Tensor gradient = start - parameters;
  velocity.mul_(momentum).add_(gradient);
  start.sub_(rate * (gradient + momentum * velocity));
  parameters.copy_(start);
}
