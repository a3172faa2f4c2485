#pragma once
// Your answer to exercise 56. Build and check it with: ./tenfold exercise 56
#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

/// Ends a round of DiLoCo. `parameters` (n) are what this rank's own updates have made of them. `start` (n), where the
/// round began, and `velocity` (n), of the outer momentum, are equal on all ranks before and after; `parameters` are so
/// after. The outer optimizer is SGD with this rate and Nesterov's momentum.
inline void outer_step(const torch::Tensor& parameters, const torch::Tensor& start, const torch::Tensor& velocity,
                       double rate, double momentum, c10d::ProcessGroup& group) {
  const torch::NoGradGuard no_grad;
  // Hint: std::vector<torch::Tensor> tensors{parameters}; group.allreduce(tensors)->wait() sums over the ranks in
  // place. Hint: a step of SGD goes against the gradient. Which sign makes it go where the ranks went?
  (void)start, (void)velocity, (void)rate, (void)momentum, (void)group;
}
