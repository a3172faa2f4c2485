// installs as <tenfold/distributed_sampler.h>
#pragma once
// Which samples a rank draws when the data set, not a global batch, is divided.

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>

namespace tenfold {

/// Indices that `rank` visits in one epoch: all ranks shuffle alike (same seed, another order each epoch) and take
/// every world_size-th. The list is filled up from its own beginning, so that every rank makes equally many steps: one
/// that stopped earlier would leave the others waiting in an all-reduce. At most world_size - 1 samples are seen twice.
/// (ceil(size / world_size)) int64. Throws std::invalid_argument (c10::ValueError) unless 0 <= rank < world_size <=
/// size.
inline torch::Tensor indices_of_rank(int64_t size, int rank, int world_size, uint64_t seed, uint64_t epoch) {
  TORCH_CHECK_VALUE(0 <= rank && rank < world_size && world_size <= size, "rank ", rank, " of ", world_size,
                    " cannot share ", size, " samples");
  const torch::Tensor order = torch::randperm(size, at::detail::createCPUGenerator(seed + epoch), torch::kLong);
  const int64_t each = (size + world_size - 1) / world_size;
  return torch::cat({order, order.narrow(0, 0, each * world_size - size)}).slice(0, rank, torch::nullopt, world_size);
}

/// How many of these indices are the rank's first visits: what follows them is filled up, and another rank has it, too.
/// A metric over all ranks counts no more than these.
inline int64_t samples_of_rank(int64_t size, int rank, int world_size) {
  TORCH_CHECK_VALUE(0 <= rank && rank < world_size && world_size <= size, "rank ", rank, " of ", world_size,
                    " cannot share ", size, " samples");
  return (size - rank + world_size - 1) / world_size;
}

}  // namespace tenfold
