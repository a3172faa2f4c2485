// installs as <tenfold/expert_parallel.h>
#pragma once
// Expert parallelism: each rank has some of the experts and some of the tokens. An all-to-all sends each row to the
// rank that has its expert, another one sends the result back. Ranks send unequal numbers of rows, so they tell each
// other the counts first. One source for CPU (Gloo) and GPU (NCCL). Source: D. Lepikhin et al., GShard, 2020.

#include <torch/torch.h>

#include <ATen/record_function.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "lessons/21_mixed_precision/autocast.h"
#include "lessons/54_model_parallel/tensor_group.h"
#include "mixture_of_experts.h"

namespace tenfold {

/// Rows to each rank, and rows from each rank.
struct Splits {
  std::vector<int64_t> to, from;

  Splits reversed() const { return {from, to}; }
};

/// Sends `rows` (sum of to, ...), contiguous and in the ranks' order, and returns what came, (sum of from, ...).
inline torch::Tensor exchange_rows(const torch::Tensor& rows, const Splits& splits, const TensorGroup& group) {
  if (!group.pointer()) return rows;
  std::vector<int64_t> sizes = rows.sizes().vec();
  sizes.at(0) = 0;
  for (const int64_t from : splits.from) sizes[0] += from;
  torch::Tensor received = torch::empty(sizes, rows.options()), sent = rows.contiguous();
  Splits copy = splits;  // c10d takes them by reference
  RECORD_USER_SCOPE("communication");
  group.pointer()->alltoall_base(received, sent, copy.from, copy.to)->wait();
  return received;
}

namespace expert_parallel {

using Context = torch::autograd::AutogradContext;
using Gradients = torch::autograd::variable_list;

/// All-to-all forward; backward the gradients go the same ways back: an all-to-all with the splits reversed.
struct AllToAll : torch::autograd::Function<AllToAll> {
  static torch::Tensor forward(Context* context, const torch::Tensor& rows, const Splits& splits,
                               const TensorGroup& group) {
    context->saved_data["group"] = c10::IValue::make_capsule(group.pointer());
    context->saved_data["to"] = splits.to;
    context->saved_data["from"] = splits.from;
    return exchange_rows(rows, splits, group);
  }
  static Gradients backward(Context* context, Gradients gradients) {
    refuse_second_derivatives("exchange_rows");
    const TensorGroup group(
        c10::static_intrusive_pointer_cast<c10d::ProcessGroup>(context->saved_data["group"].toCapsule()));
    const Splits forward{context->saved_data["to"].toIntVector(), context->saved_data["from"].toIntVector()};
    return {exchange_rows(gradients[0], forward.reversed(), group), {}, {}};
  }
};

}  // namespace expert_parallel

/// exchange_rows() that autograd knows. Every rank must call it, and backward, too: also one that sends nothing.
inline torch::Tensor all_to_all(const torch::Tensor& rows, const Splits& splits, const TensorGroup& group) {
  return group.pointer() ? expert_parallel::AllToAll::apply(rows, splits, group) : rows;
}

/// What a rank must know before its rows can go: how many go where, and in which order those that come belong to its
/// experts.
struct ExpertExchange {
  Splits splits;
  torch::Tensor order, inverse;  ///< (received): rows come by source and then by expert; sorted by expert
  torch::Tensor ends;            ///< (E / ranks), int32: where each of this rank's experts' rows end, once sorted
};

/// From this rank's `counts` (E) of rows for each expert; rank r has experts r E / N to (r + 1) E / N. Sends 8 E bytes,
/// and the host WAITS for the device: sizes of messages and of tensors are the host's. Throws c10::ValueError unless
/// the ranks divide the experts.
inline ExpertExchange exchange_counts(const torch::Tensor& counts, const TensorGroup& group) {
  const int64_t ranks = group.ranks();
  TORCH_CHECK_VALUE(counts.size(0) % ranks == 0, ranks, " ranks do not divide ", counts.size(0), " experts");
  const int64_t own = counts.size(0) / ranks;
  const std::vector<int64_t> equal(static_cast<size_t>(ranks), own);
  const torch::Tensor received = exchange_rows(counts, {equal, equal}, group);  // (E): by source, expert
  const torch::Tensor on_host = torch::stack({counts, received}).view({2, ranks, own}).sum(2).cpu();  // the wait
  ExpertExchange exchange;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    exchange.splits.to.push_back(on_host[0][rank].item<int64_t>());
    exchange.splits.from.push_back(on_host[1][rank].item<int64_t>());
  }
  const torch::Tensor experts = torch::arange(own, counts.options()).repeat({ranks});  // of each entry of `received`
  exchange.order = experts.repeat_interleave(received, 0, on_host[1].sum().item<int64_t>())
                       .argsort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
  exchange.inverse = inverse_of(exchange.order);
  exchange.ends = group_ends(received.view({ranks, own}).sum(0));
  return exchange;
}

/// The mixture of this rank's tokens `x` (n, D), where this rank has its part of the experts alone: `up` (E / N, D, F),
/// `down` (E / N, F, D). Drops nothing. Weights are applied where the tokens are: that needs no message.
inline torch::Tensor expert_parallel_mlp(const torch::Tensor& x, const Routing& routing, const torch::Tensor& up,
                                         const torch::Tensor& down, const TensorGroup& group) {
  const ExpertOrder sorted = sort_by_expert(routing.experts, up.size(0) * group.ranks());
  const ExpertExchange exchange = exchange_counts(sorted.counts, group);
  // Cast before they go: under autocast rows travel in 16 bits, there and back.
  torch::Tensor rows = permute_tokens(autocast_input(x), sorted, routing.experts.size(1));  // (n k, D), by expert
  rows = all_to_all(rows, exchange.splits, group);                                          // (received, D), by source
  rows = unpermute_rows(rows, exchange.inverse, exchange.order);                            // by expert
  rows = grouped_mlp(rows, up, down, exchange.ends);
  rows = unpermute_rows(rows, exchange.order, exchange.inverse);  // by source
  rows = all_to_all(rows, exchange.splits.reversed(), group);     // (n k, D), by expert
  return weighted_sum(unpermute_rows(rows, sorted.order, sorted.inverse), routing.weights);
}

/// After backward(), of a loss that is the mean over a rank's own tokens: an expert's gradient is the sum over the
/// tokens of all `ranks` of the expert-parallel group already. All other gradients are averaged over them, so it is
/// divided by their number, and must NOT be all-reduced within the group: the other ranks have other experts.
inline void divide_expert_gradients(const std::vector<torch::Tensor>& experts, int64_t ranks) {
  const torch::NoGradGuard no_grad;
  for (const torch::Tensor& parameter : experts) {
    TORCH_CHECK(parameter.grad().defined(), "divide_expert_gradients() comes after backward()");
    parameter.mutable_grad().div_(static_cast<double>(ranks));
  }
}

}  // namespace tenfold
