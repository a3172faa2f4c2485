// installs as <tenfold/tensor_parallel.h>
#pragma once
// Tensor parallelism: each rank has a part of a layer's weights. A layer that is cut along its outputs (columns) is
// followed by one that is cut along its inputs (rows), so that nothing is sent between the two. One source for CPU
// (Gloo) and GPU (NCCL). Source: M. Shoeybi et al., Megatron-LM: Training Multi-Billion Parameter Language Models Using
// Model Parallelism, 2019.

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "lessons/21_mixed_precision/autocast.h"
#include "sequence_parallel.h"
#include "tensor_group.h"

namespace tenfold {

namespace tensor_parallel {

using Context = torch::autograd::AutogradContext;
using Gradients = torch::autograd::variable_list;

/// Identity forward, all-reduce backward: stands before a layer that is cut along its outputs.
struct Copy : torch::autograd::Function<Copy> {
  static torch::Tensor forward(Context* context, const torch::Tensor& x, const TensorGroup& group) {
    sequence_parallel::keep_group(context, group);
    return x.view_as(x);
  }
  static Gradients backward(Context* context, Gradients gradients) {
    refuse_second_derivatives("copy_to_ranks");
    // A copy: autograd may still need the gradient that it gives. It is contiguous, too, as a collective wants it.
    const torch::Tensor sum = gradients[0].clone(at::MemoryFormat::Contiguous);
    return {sequence_parallel::kept_group(context).sum(sum), {}};
  }
};

/// Copy and the linear layer after it. As two functions, backward would compute both gradients and then wait for the
/// all-reduce; here it runs next to the weight's gradient. All of one type; every rank must freeze the same.
struct CopyLinear : torch::autograd::Function<CopyLinear> {
  static torch::Tensor forward(Context* context, const torch::Tensor& x, const torch::Tensor& weight,
                               const std::optional<torch::Tensor>& bias, const TensorGroup& group) {
    sequence_parallel::keep_group(context, group);
    context->save_for_backward({x, weight});
    context->saved_data["bias"] = bias.has_value();
    return torch::linear(x, weight, bias.value_or(torch::Tensor()));
  }
  static Gradients backward(Context* context, Gradients gradients) {
    refuse_second_derivatives("copy_linear");
    const auto saved = context->get_saved_variables();
    const torch::Tensor gradient = gradients[0].flatten(0, -2);  // (tokens, out / ranks)
    torch::Tensor of_input, of_weight, of_bias;
    std::optional<Pending> sum;
    if (context->needs_input_grad(0))
      sum = sequence_parallel::kept_group(context).start_sum(torch::matmul(gradients[0], saved[1]));
    if (context->needs_input_grad(1)) of_weight = gradient.t().mm(saved[0].flatten(0, -2));
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2)) of_bias = gradient.sum(0);
    if (sum) of_input = sum->wait();
    return {of_input, of_weight, of_bias, {}};
  }
};

/// All-reduce forward, in place, identity backward: stands after a layer that is cut along its inputs.
struct Sum : torch::autograd::Function<Sum> {
  static torch::Tensor forward(Context* context, const torch::Tensor& partial, const TensorGroup& group) {
    context->mark_dirty({partial});
    return group.sum(partial);
  }
  static Gradients backward(Context* /*context*/, Gradients gradients) { return {gradients[0], {}}; }
};

}  // namespace tensor_parallel

/// To where each rank computes a part from all of `x`: its gradient is the sum of the ranks'.
inline torch::Tensor copy_to_ranks(const torch::Tensor& x, const TensorGroup& group) {
  return group.pointer() ? tensor_parallel::Copy::apply(x, group) : x;
}

/// torch::linear(copy_to_ranks(x, group), weight, bias), with the all-reduce of its backward next to a matmul.
inline torch::Tensor copy_linear(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                                 const TensorGroup& group) {
  if (!group.pointer()) return torch::linear(x, weight, bias);
  const auto optional = bias.defined() ? std::optional<torch::Tensor>(autocast_input(bias)) : std::nullopt;
  return tensor_parallel::CopyLinear::apply(autocast_input(x), autocast_input(weight), optional, group);
}

/// Parts of a sum to the sum, on every rank. Changes `partial`, which must be contiguous and nobody else's.
inline torch::Tensor sum_over_ranks(const torch::Tensor& partial, const TensorGroup& group) {
  return group.pointer() ? tensor_parallel::Sum::apply(partial, group) : partial;
}

struct TensorParallel {
  TensorGroup group = TensorGroup();
  bool sequence = false;      ///< between the layers each rank has its part of the tokens alone
  bool gather_again = false;  ///< with it: a column-parallel layer keeps its part of the tokens, too
};

/// A column-parallel layer: (tokens, in) and this rank's rows of the weight, (out / ranks, in), to (all tokens, out /
/// ranks). In sequence parallelism `x` has this rank's tokens.
inline torch::Tensor column_linear(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                                   const TensorParallel& how) {
  return how.sequence ? gather_linear(x, weight, bias, how.group, how.gather_again)
                      : copy_linear(x, weight, bias, how.group);
}

/// Cut along the outputs. This rank has rows of the weight (out, in), and of the bias.
struct ColumnParallelLinearImpl : torch::nn::Module {
  /// Takes this rank's part of a whole layer that is equal on all ranks. `stacked`: how many layers of equal size it
  /// is.
  ColumnParallelLinearImpl(torch::nn::LinearImpl& whole, TensorParallel parallel, int64_t stacked = 1)
      : cut{0, stacked}, how(std::move(parallel)) {
    const auto own = [&](const torch::Tensor& t) { return part_of(t, cut, how.group.rank(), how.group.ranks()); };
    weight = register_parameter("weight", own(whole.weight));
    if (whole.bias.defined()) bias = register_parameter("bias", own(whole.bias));
  }

  /// (tokens, in) to (all tokens, out / ranks). In sequence parallelism `x` has this rank's tokens.
  torch::Tensor forward(const torch::Tensor& x) { return column_linear(x, weight, bias, how); }

  Cut cut;
  TensorParallel how;
  torch::Tensor weight, bias;
};
TORCH_MODULE(ColumnParallelLinear);

/// Cut along the inputs. This rank has columns of the weight (out, in), and all of the bias.
struct RowParallelLinearImpl : torch::nn::Module {
  RowParallelLinearImpl(torch::nn::LinearImpl& whole, TensorParallel parallel) : how(std::move(parallel)) {
    weight = register_parameter("weight", part_of(whole.weight, cut, how.group.rank(), how.group.ranks()));
    if (whole.bias.defined()) bias = register_parameter("bias", whole.bias.detach().clone());
  }

  /// (all tokens, in / ranks) to (tokens, out). In sequence parallelism the result has this rank's tokens.
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor partial = torch::linear(x, weight);
    const torch::Tensor sum =
        how.sequence ? reduce_scatter_tokens(partial, how.group) : sum_over_ranks(partial, how.group);
    // Once: a bias on each rank would be added as often as there are ranks. In the sum's type, as torch::linear adds
    // it.
    return bias.defined() ? sum + autocast_input(bias) : sum;
  }

  Cut cut{1};
  TensorParallel how;
  torch::Tensor weight, bias;
};
TORCH_MODULE(RowParallelLinear);

}  // namespace tenfold
