// installs as <tenfold/gradient_buckets.h>
#pragma once
// The parts that data parallel training is made of, on c10d's collectives: one source for CPU (Gloo) and GPU (NCCL).

#include <torch/torch.h>

#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace tenfold {

struct DdpOptions {
  int64_t first_bucket_bytes = 1 << 20;  ///< small, so that communication begins soon after backward() does
  int64_t bucket_bytes = 25 << 20;       ///< PyTorch's own default
  /// .grad is the gradient's place in its bucket: nothing is copied back, and no second copy of all gradients lives.
  bool gradients_are_views = false;
  /// In another type than the gradients': kBFloat16 sends half the bytes of 32 bits, and adds up in 16.
  std::optional<torch::ScalarType> sent_as = std::nullopt;
};

/// What was handed to all-reduce.
struct Traffic {
  int64_t payload_bytes = 0;
  int64_t all_reduces = 0;
};

/// Bytes that one rank sends in a ring all-reduce of `payload_bytes`: N - 1 steps of 1/N each to sum, as many to share.
/// Source: P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009.
inline int64_t ring_bytes(int64_t payload_bytes, int world_size) {
  return 2 * (world_size - 1) * payload_bytes / world_size;
}

/// This rank's rows of a global batch. Throws when the rows cannot be divided evenly: a mean of means over parts of
/// unequal size is not the mean over the batch.
inline torch::Tensor local_batch(const torch::Tensor& batch, int rank, int world_size) {
  TORCH_CHECK_VALUE(batch.size(0) % world_size == 0, "a batch of ", batch.size(0),
                    " rows cannot be divided evenly among ", world_size, " ranks");
  const int64_t rows = batch.size(0) / world_size;
  return batch.narrow(0, rank * rows, rows);
}

/// Gives every rank rank 0's values. Every rank must call it, with tensors of equal shapes in equal order.
inline void broadcast_from_rank_0(const std::vector<torch::Tensor>& tensors, c10d::ProcessGroup& group) {
  torch::NoGradGuard no_grad;
  for (const torch::Tensor& tensor : tensors) {
    std::vector<torch::Tensor> dense{tensor.detach().contiguous()};  // the tensor's own memory unless it has gaps
    group.broadcast(dense)->wait();
    if (!tensor.is_contiguous()) tensor.copy_(dense[0]);
  }
}

/// Starts the sum of one tensor over all ranks, in place. Nobody may touch the tensor until the work is waited for.
inline c10::intrusive_ptr<c10d::Work> start_all_reduce(const torch::Tensor& tensor, c10d::ProcessGroup& group) {
  std::vector<torch::Tensor> tensors{tensor};
  return group.allreduce(tensors);
}

/// After backward(): averages each gradient over the ranks with an all-reduce of its own. Returns what was sent.
/// Simple and slow: each call waits for the slowest rank and pays the latency again.
inline Traffic average_each(const std::vector<torch::Tensor>& parameters, c10d::ProcessGroup& group) {
  RECORD_USER_SCOPE("communication");
  Traffic traffic;
  for (const torch::Tensor& parameter : parameters) {
    TORCH_CHECK(parameter.grad().defined(),
                "a parameter has no gradient: average_each needs one for each, on every rank");
    torch::Tensor gradient =
        parameter.grad().div_(group.getSize());  // before the sum, which half precision may not hold
    start_all_reduce(gradient, group)->wait();
    traffic.payload_bytes += static_cast<int64_t>(gradient.nbytes());
    ++traffic.all_reduces;
  }
  return traffic;
}

/// Which gradients travel together, as indices into `parameters`. Last parameter first, because backward() finishes
/// them in about that order; a bucket is closed when it has reached its size; one data type in each.
inline std::vector<std::vector<size_t>> assign_buckets(const std::vector<torch::Tensor>& parameters,
                                                       const DdpOptions& options) {
  struct Open {
    std::vector<size_t> members;
    int64_t bytes = 0, limit = 0;
  };
  std::map<torch::ScalarType, Open> open;
  std::vector<std::vector<size_t>> buckets;
  for (size_t i = parameters.size(); i-- > 0;) {
    Open& bucket = open.try_emplace(parameters[i].scalar_type(), Open{{}, 0, options.first_bucket_bytes}).first->second;
    bucket.members.push_back(i);
    bucket.bytes += static_cast<int64_t>(parameters[i].nbytes());
    if (bucket.bytes >= bucket.limit) {
      buckets.push_back(std::move(bucket.members));
      bucket = Open{{}, 0, options.bucket_bytes};
    }
  }
  for (auto& [type, rest] : open) {
    if (!rest.members.empty()) buckets.push_back(std::move(rest.members));
  }
  return buckets;
}

/// After backward(): averages the gradients bucket by bucket, each copied into one flat tensor and back. Returns
/// what was sent. Few large messages instead of many small ones, but nothing overlaps with backward().
inline Traffic average_in_buckets(const std::vector<torch::Tensor>& parameters,
                                  const std::vector<std::vector<size_t>>& buckets, c10d::ProcessGroup& group) {
  RECORD_USER_SCOPE("communication");
  torch::NoGradGuard no_grad;
  Traffic traffic;
  for (const auto& members : buckets) {
    std::vector<torch::Tensor> rows;
    for (const size_t i : members) {
      TORCH_CHECK(parameters[i].grad().defined(), "parameter ", i,
                  " has no gradient: average_in_buckets needs one for each, on every rank");
      rows.push_back(parameters[i].grad().flatten());
    }
    const torch::Tensor flat = torch::cat(rows).div_(group.getSize());
    start_all_reduce(flat, group)->wait();
    traffic.payload_bytes += static_cast<int64_t>(flat.nbytes());
    ++traffic.all_reduces;
    int64_t at = 0;
    for (const size_t i : members) {
      parameters[i].mutable_grad().copy_(flat.narrow(0, at, parameters[i].numel()).view(parameters[i].sizes()));
      at += parameters[i].numel();
    }
  }
  return traffic;
}

}  // namespace tenfold
