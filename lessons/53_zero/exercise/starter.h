#pragma once
// Your answer to exercise 53. Build and check it with: ./tenfold exercise 53
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
  // Hint: size * ranks can be more than n. torch::constant_pad_nd(gradient, {0, size * ranks - values}) fills it up.
  // Hint: group._reduce_scatter_base(own, whole) sums over the ranks; own (size) gets this rank's part.
  // Hint: group._allgather_base(whole, own) is the way back. Both take lvalues, and return work to wait() for.
  (void)learning_rate, (void)rank, (void)values, (void)size, (void)ranks;
}
