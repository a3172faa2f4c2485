// installs as <tenfold/sequence_parallel.h>
#pragma once
// Sequence parallelism: between the layers that are cut, each rank has a part of the tokens. An all-gather before such
// a layer and a reduce-scatter after it take the place of tensor parallelism's all-reduces. Source: V. Korthikanti et
// al., Reducing Activation Recomputation in Large Transformer Models, MLSys 2023.

#include <torch/torch.h>

#include <optional>
#include <vector>

#include "lessons/21_mixed_precision/autocast.h"
#include "tensor_group.h"

namespace tenfold {

namespace sequence_parallel {

using Context = torch::autograd::AutogradContext;
using Gradients = torch::autograd::variable_list;

/// A group among what a graph's node keeps.
inline void keep_group(Context* context, const TensorGroup& group) {
  context->saved_data["group"] = c10::IValue::make_capsule(group.pointer());
}
inline TensorGroup kept_group(Context* context) {
  return TensorGroup(c10::static_intrusive_pointer_cast<c10d::ProcessGroup>(context->saved_data["group"].toCapsule()));
}

/// All-gather forward, reduce-scatter backward: every rank computes with all tokens, so each has a part of the gradient
/// of every token.
struct Gather : torch::autograd::Function<Gather> {
  static torch::Tensor forward(Context* context, const torch::Tensor& own, const TensorGroup& group) {
    keep_group(context, group);
    return group.gather(own);
  }
  static Gradients backward(Context* context, Gradients gradients) {
    refuse_second_derivatives("gather_tokens");
    return {kept_group(context).reduce_scatter(gradients[0]), {}};
  }
};

/// Reduce-scatter forward, all-gather backward.
struct ReduceScatter : torch::autograd::Function<ReduceScatter> {
  static torch::Tensor forward(Context* context, const torch::Tensor& partial, const TensorGroup& group) {
    keep_group(context, group);
    return group.reduce_scatter(partial);
  }
  static Gradients backward(Context* context, Gradients gradients) {
    refuse_second_derivatives("reduce_scatter_tokens");
    return {kept_group(context).gather(gradients[0]), {}};
  }
};

/// A linear layer of all tokens. For the weight's gradient it keeps what it has gathered, or this rank's tokens alone
/// and gathers the others again. All of one type. What needs no gradient costs none: every rank must freeze the same.
struct GatherLinear : torch::autograd::Function<GatherLinear> {
  static torch::Tensor forward(Context* context, const torch::Tensor& own, const torch::Tensor& weight,
                               const std::optional<torch::Tensor>& bias, const TensorGroup& group, bool gather_again) {
    const torch::Tensor all = group.gather(own);
    keep_group(context, group);
    context->save_for_backward({gather_again ? own : all, weight});
    context->saved_data["again"] = gather_again;
    context->saved_data["bias"] = bias.has_value();
    return torch::linear(all, weight, bias.value_or(torch::Tensor()));
  }
  /// Two matmuls, each next to a collective that it does not need: the gather to the input's gradient, the
  /// reduce-scatter to the weight's.
  static Gradients backward(Context* context, Gradients gradients) {
    refuse_second_derivatives("gather_linear");
    const TensorGroup group = kept_group(context);
    const auto saved = context->get_saved_variables();
    const bool for_input = context->needs_input_grad(0), for_weight = context->needs_input_grad(1);
    const torch::Tensor gradient = gradients[0].flatten(0, -2);  // (all tokens, out)
    torch::Tensor of_input, of_weight, of_bias, all = saved[0];
    std::optional<Pending> gathered, scattered;
    if (for_weight && context->saved_data["again"].toBool()) gathered = group.start_gather(saved[0]);
    if (for_input) of_input = torch::matmul(gradients[0], saved[1]);
    if (gathered) all = gathered->wait();
    if (for_input) scattered = group.start_reduce_scatter(of_input);
    if (for_weight) of_weight = gradient.t().mm(all.flatten(0, -2));
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2)) of_bias = gradient.sum(0);
    if (scattered) of_input = scattered->wait();
    return {of_input, of_weight, of_bias, {}, {}};
  }
};

}  // namespace sequence_parallel

/// This rank's tokens (n, ...) to all tokens (ranks n, ...).
inline torch::Tensor gather_tokens(const torch::Tensor& own, const TensorGroup& group) {
  return group.pointer() ? sequence_parallel::Gather::apply(own, group) : own;
}

/// Parts of a sum, (ranks n, ...) on each rank, to the sum for this rank's tokens (n, ...).
inline torch::Tensor reduce_scatter_tokens(const torch::Tensor& partial, const TensorGroup& group) {
  return group.pointer() ? sequence_parallel::ReduceScatter::apply(partial, group) : partial;
}

/// torch::linear(gather_tokens(own), weight, bias), with the collectives of its backward next to its matmuls.
/// `gather_again`: it does not keep the gathered tokens.
inline torch::Tensor gather_linear(const torch::Tensor& own, const torch::Tensor& weight, const torch::Tensor& bias,
                                   const TensorGroup& group, bool gather_again = true) {
  if (!group.pointer()) return torch::linear(own, weight, bias);
  const auto optional = bias.defined() ? std::optional<torch::Tensor>(autocast_input(bias)) : std::nullopt;
  return sequence_parallel::GatherLinear::apply(autocast_input(own), autocast_input(weight), optional, group,
                                                gather_again);
}

/// After backward(): sums the gradients of parameters that every rank has whole and uses for its own tokens only, such
/// as LayerNorm's weights; frozen ones are left out. One all-reduce. Without it each rank updates them by its own
/// tokens, and they drift apart.
inline void sum_gradients(const std::vector<torch::Tensor>& parameters, const TensorGroup& group) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> trainable, flat;
  for (const torch::Tensor& parameter : parameters) {
    if (!parameter.requires_grad()) continue;
    trainable.push_back(parameter);
    TORCH_CHECK(parameter.grad().defined(), "sum_gradients() comes after backward(), and a parameter has no gradient");
    flat.push_back(parameter.grad().flatten());
  }
  if (!group.pointer() || flat.empty()) return;
  const torch::Tensor all = group.sum(torch::cat(flat));
  int64_t begin = 0;
  for (const torch::Tensor& parameter : trainable) {
    parameter.mutable_grad().copy_(all.narrow(0, begin, parameter.numel()).view(parameter.sizes()));
    begin += parameter.numel();
  }
}

}  // namespace tenfold
