#pragma once
// The kept solution of exercise 52; CI proves that it passes.
#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <vector>

/// Leaves in each of this rank's gradients the mean of that gradient over the ranks of the group. All gradients are of
/// one type and travel in a single all-reduce. Every rank calls it with tensors of equal shapes in equal order.
inline void average_bucket(const std::vector<torch::Tensor>& gradients, c10d::ProcessGroup& group) {
  std::vector<torch::Tensor> rows;
  for (const torch::Tensor& gradient : gradients) rows.push_back(gradient.flatten());
  std::vector<torch::Tensor> flat{torch::cat(rows)};
  flat[0].div_(group.getSize());  // before the sum: sixteen-bit numbers could overflow in it
  group.allreduce(flat)->wait();
  int64_t at = 0;
  for (const torch::Tensor& gradient : gradients) {
    gradient.copy_(flat[0].narrow(0, at, gradient.numel()).view(gradient.sizes()));
    at += gradient.numel();
  }
}
