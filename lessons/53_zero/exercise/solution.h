#pragma once
// The kept solution of exercise 53; CI proves that it passes.
#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

/// One update of SGD with momentum 0.9 in which each rank keeps the momentum of its shard alone. `parameters` (n) are
/// whole and equal on all ranks before and after; `gradient` (n) is that of this rank's part of the batch, and may be
/// changed. `momentum` (ceil(n / ranks)) is this rank's. n need not be divisible by the number of ranks.
inline void sharded_step(const torch::Tensor& parameters, const torch::Tensor& gradient, const torch::Tensor& momentum,
                         double learning_rate, c10d::ProcessGroup& group) {
  const torch::NoGradGuard no_grad;
  const int64_t ranks = group.getSize(), rank = group.getRank(), values = parameters.numel();
  const int64_t size = momentum.numel();  // of a shard
  const int64_t filled_up = size * ranks - values;
  torch::Tensor whole = torch::constant_pad_nd(gradient / ranks, {0, filled_up});
  torch::Tensor own = torch::empty_like(momentum);
  group._reduce_scatter_base(own, whole)->wait();
  momentum.mul_(0.9).add_(own);
  torch::Tensor all = torch::constant_pad_nd(parameters, {0, filled_up});
  torch::Tensor shard = all.narrow(0, rank * size, size).clone();
  shard.sub_(momentum, learning_rate);
  group._allgather_base(all, shard)->wait();
  parameters.copy_(all.narrow(0, 0, values));
}
