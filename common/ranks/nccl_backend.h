#pragma once

#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>

namespace tenfold {

/// Gives the group NCCL for CUDA tensors. Throws std::runtime_error in a build without NCCL.
void add_nccl_backend(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                      std::chrono::milliseconds timeout);

}  // namespace tenfold
