// installs as <tenfold/tensor_group.h>
#pragma once
// The ranks that share a layer, and the collectives between them that tensor and sequence parallelism are made of.

#include <torch/torch.h>

#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace tenfold {

/// For the backward() of a Function that calls a collective: autograd does not record it, so that second derivatives
/// would be wrong without a word. Throws c10::Error with create_graph.
inline void refuse_second_derivatives(const char* function) {
  TORCH_CHECK(!at::GradMode::is_enabled(), function, ": backward(create_graph = true) is not supported");
}

/// A collective under way. Compute what does not need it, then wait().
class Pending {
 public:
  Pending(torch::Tensor result, torch::Tensor sent, c10::intrusive_ptr<c10d::Work> work)
      : result_(std::move(result)), sent_(std::move(sent)), work_(std::move(work)) {}

  /// Its result. On CUDA the current stream waits, and the CPU does not.
  torch::Tensor wait() const {
    if (work_) {
      RECORD_USER_SCOPE("communication");
      work_->wait();
    }
    return result_;
  }

 private:
  torch::Tensor result_, sent_;  // sent_ is read until the end
  c10::intrusive_ptr<c10d::Work> work_;
};

/// Ranks that share a layer. Every rank must call the same collectives in the same order. Without a group there is one
/// rank, and nothing is sent. Rows are tokens: the first dimension.
class TensorGroup {
 public:
  using Pointer = c10::intrusive_ptr<c10d::ProcessGroup>;

  TensorGroup() = default;
  explicit TensorGroup(Pointer group) : group_(std::move(group)) {}

  int rank() const { return group_ ? group_->getRank() : 0; }
  int ranks() const { return group_ ? group_->getSize() : 1; }
  const Pointer& pointer() const { return group_; }

  /// All-reduce, in place: `x` is contiguous, and nobody else may need what it was.
  torch::Tensor sum(const torch::Tensor& x) const { return start_sum(x).wait(); }
  torch::Tensor max(const torch::Tensor& x) const { return start_all_reduce(x, c10d::ReduceOp::MAX).wait(); }
  Pending start_sum(const torch::Tensor& x) const { return start_all_reduce(x, c10d::ReduceOp::SUM); }

  /// All-gather: (n, ...) of each rank to (ranks n, ...), in the ranks' order.
  torch::Tensor gather(const torch::Tensor& part) const { return start_gather(part).wait(); }
  Pending start_gather(const torch::Tensor& part) const {
    if (!group_) return {part, {}, {}};
    std::vector<int64_t> sizes = part.sizes().vec();
    sizes.at(0) *= ranks();
    torch::Tensor whole = torch::empty(sizes, part.options()), own = part.contiguous();
    RECORD_USER_SCOPE("communication");
    return {whole, own, group_->_allgather_base(whole, own)};
  }

  /// Reduce-scatter: (ranks n, ...) to the sum over the ranks of this rank's rows, (n, ...). Throws c10::ValueError
  /// unless the ranks divide the rows.
  torch::Tensor reduce_scatter(const torch::Tensor& whole) const { return start_reduce_scatter(whole).wait(); }
  Pending start_reduce_scatter(const torch::Tensor& whole) const {
    if (!group_) return {whole, {}, {}};
    std::vector<int64_t> sizes = whole.sizes().vec();
    TORCH_CHECK_VALUE(sizes.at(0) % ranks() == 0, ranks(), " ranks do not divide ", sizes[0], " tokens");
    sizes[0] /= ranks();
    torch::Tensor part = torch::empty(sizes, whole.options()), all = whole.contiguous();
    RECORD_USER_SCOPE("communication");
    return {part, all, group_->_reduce_scatter_base(part, all)};
  }

  /// This rank's rows of what every rank has: (ranks n, ...) to (n, ...), a view.
  torch::Tensor own_rows(const torch::Tensor& whole) const {
    TORCH_CHECK_VALUE(whole.size(0) % ranks() == 0, ranks(), " ranks do not divide ", whole.size(0), " tokens");
    const int64_t rows = whole.size(0) / ranks();
    return whole.narrow(0, rank() * rows, rows);
  }

 private:
  Pending start_all_reduce(const torch::Tensor& x, c10d::ReduceOp operation) const {
    if (!group_) return {x, {}, {}};
    std::vector<torch::Tensor> tensors{x};
    c10d::AllreduceOptions options;
    options.reduceOp = std::move(operation);
    RECORD_USER_SCOPE("communication");
    return {x, x, group_->allreduce(tensors, options)};
  }

  Pointer group_;
};

/// Which part of a weight a rank has: a part of this dimension; of a weight that is several stacked on top of each
/// other (queries, keys and values), a part of each. `dimension` -1: every rank has the whole.
struct Cut {
  int64_t dimension = -1;
  int64_t stacked = 1;
};

/// Rank `rank`'s part, a copy: of (out, in) the (out / ranks, in) or (out, in / ranks). Throws c10::ValueError unless
/// the ranks divide the dimension.
inline torch::Tensor part_of(const torch::Tensor& whole, const Cut& cut, int rank, int ranks) {
  if (cut.dimension < 0) return whole.detach().clone();
  const int64_t size = whole.size(cut.dimension) / cut.stacked;
  TORCH_CHECK_VALUE(size % ranks == 0, ranks, " ranks do not divide a dimension of ", size);
  std::vector<torch::Tensor> parts;
  for (const torch::Tensor& stacked : whole.detach().chunk(cut.stacked, cut.dimension))
    parts.push_back(stacked.narrow(cut.dimension, rank * (size / ranks), size / ranks));
  return torch::cat(parts, cut.dimension);
}

/// The way back, from all ranks' parts in their order.
inline torch::Tensor whole_of(const std::vector<torch::Tensor>& parts, const Cut& cut) {
  if (cut.dimension < 0) return parts.at(0);
  std::vector<torch::Tensor> pieces;
  for (int64_t i = 0; i < cut.stacked; ++i) {
    for (const torch::Tensor& part : parts) {
      const int64_t size = part.size(cut.dimension) / cut.stacked;
      pieces.push_back(part.narrow(cut.dimension, i * size, size));
    }
  }
  return torch::cat(pieces, cut.dimension);
}

}  // namespace tenfold
