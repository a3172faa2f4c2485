#pragma once
// What DataParallel sends in a step, between ranks: each device is a process here, so that DDP can stand next to it
// with the same processes and the same transport. Rank 0 alone has data, the loss, the optimizer and its state.

#include <torch/torch.h>

#include <ATen/record_function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lessons/52_ddp/gradient_buckets.h"

namespace tenfold::inline lesson_51 {

/// The exchanges of a step. Every rank must call the same ones; what only rank 0 has may be undefined elsewhere.
class RankExchange {
 public:
  RankExchange(std::vector<torch::Tensor> parameters, c10::intrusive_ptr<c10d::ProcessGroup> group,
               const DdpOptions& sizes)
      : parameters_(std::move(parameters)), group_(std::move(group)), buckets_(assign_buckets(parameters_, sizes)) {}

  /// Gives all ranks rank 0's parameters, in flat buckets.
  void broadcast_parameters() const {
    RECORD_USER_SCOPE("communication");
    const torch::NoGradGuard no_grad;
    for (const auto& members : buckets_) {
      std::vector<torch::Tensor> flat{flattened(members, values_of)};
      group_->broadcast(flat)->wait();
      if (group_->getRank() == 0) continue;
      write(flat[0], members, values_of);
    }
  }

  /// Rank i's rows, of these sizes, of a tensor that rank 0 has.
  torch::Tensor scatter(const torch::Tensor& whole, const std::vector<int64_t>& sizes,
                        const torch::TensorOptions& options) const {
    RECORD_USER_SCOPE("communication");
    const torch::NoGradGuard no_grad;
    std::vector<torch::Tensor> own{torch::empty(sizes, options)};
    std::vector<std::vector<torch::Tensor>> parts;
    if (group_->getRank() == 0) parts.push_back(whole.chunk(group_->getSize()));
    group_->scatter(own, parts)->wait();
    return own[0];
  }

  /// All ranks' rows on rank 0, and undefined on the others. Rank 0's backward() scatters their gradient, and the
  /// others must call scatter() meanwhile.
  torch::Tensor gather(const torch::Tensor& own) const {
    RECORD_USER_SCOPE("communication");
    std::vector<torch::Tensor> rows{own.detach()};
    std::vector<std::vector<torch::Tensor>> parts;
    if (group_->getRank() != 0) {
      group_->gather(parts, rows)->wait();
      return {};
    }
    std::vector<int64_t> sizes = own.sizes().vec();
    sizes[0] *= group_->getSize();
    torch::Tensor whole = torch::empty(sizes, rows[0].options());
    parts.push_back(whole.chunk(group_->getSize()));
    group_->gather(parts, rows)->wait();
    torch::autograd::set_history(whole, std::make_shared<ScatterOverRanks>(own, *this));
    return whole;
  }

  /// Sums the gradients on rank 0. The others have none afterwards.
  void reduce_gradients() const {
    RECORD_USER_SCOPE("communication");
    const torch::NoGradGuard no_grad;
    for (const auto& members : buckets_) {
      std::vector<torch::Tensor> flat{flattened(members, gradient_of)};
      group_->reduce(flat)->wait();
      for (const size_t i : members) {
        if (group_->getRank() != 0) parameters_[i].mutable_grad() = torch::Tensor();
      }
      if (group_->getRank() != 0) continue;
      write(flat[0], members, gradient_of);
    }
  }

 private:
  /// Gathered rows in rank 0's backward().
  struct ScatterOverRanks : torch::autograd::Node {
    ScatterOverRanks(const torch::Tensor& own, const RankExchange& exchange)
        : Node(torch::autograd::collect_next_edges(own)),
          sizes(own.sizes().vec()),
          options(own.options()),
          exchange(exchange) {}

    torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
      return {exchange.scatter(gradients[0].contiguous(), sizes, options)};
    }

    std::vector<int64_t> sizes;
    torch::TensorOptions options;
    const RankExchange& exchange;
  };

  using Part = torch::Tensor (*)(const torch::Tensor& parameter);
  static torch::Tensor values_of(const torch::Tensor& parameter) { return parameter.detach(); }
  static torch::Tensor gradient_of(const torch::Tensor& parameter) { return parameter.grad(); }

  torch::Tensor flattened(const std::vector<size_t>& members, Part part) const {
    std::vector<torch::Tensor> flat;
    for (const size_t i : members) flat.push_back(part(parameters_[i]).flatten());
    return torch::cat(flat);
  }

  void write(const torch::Tensor& flat, const std::vector<size_t>& members, Part part) const {
    int64_t at = 0;
    for (const size_t i : members) {
      part(parameters_[i]).copy_(flat.narrow(0, at, parameters_[i].numel()).view(parameters_[i].sizes()));
      at += parameters_[i].numel();
    }
  }

  std::vector<torch::Tensor> parameters_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::vector<std::vector<size_t>> buckets_;
};

}  // namespace tenfold::inline lesson_51
