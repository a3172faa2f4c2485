#pragma once
// Your answer to exercise 52. Build and check it with: ./tenfold exercise 52
#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <vector>

/// Leaves in each of this rank's gradients the mean of that gradient over the ranks of the group. All gradients are of
/// one type and travel in a single all-reduce. Every rank calls it with tensors of equal shapes in equal order.
inline void average_bucket(const std::vector<torch::Tensor>& gradients, c10d::ProcessGroup& group) {
  // Hint: torch::cat of what has been flattened; all-reduce sums in place, and only wait() says that it is done.
  std::vector<torch::Tensor> rows;
  for (const torch::Tensor& gradient : gradients) rows.push_back(gradient.flatten());
  std::vector<torch::Tensor> flat{torch::cat(rows)};
  group.allreduce(flat)->wait();
  // Hint: the sum is in flat[0] now. Where do the gradients get it from, and what is the mean?
}
