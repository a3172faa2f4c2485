#pragma once
// The kept solution of exercise 54; CI proves that it passes.
#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <vector>

using Context = torch::autograd::AutogradContext;
using Gradients = torch::autograd::variable_list;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

/// A group among what forward() leaves for backward().
inline void keep(Context* context, const Group& group) {
  context->saved_data["group"] = c10::IValue::make_capsule(group);
}
inline Group kept(Context* context) {
  return c10::static_intrusive_pointer_cast<c10d::ProcessGroup>(context->saved_data["group"].toCapsule());
}

/// The sum of the ranks' `x`, on every rank; a new tensor.
inline torch::Tensor all_reduce(const torch::Tensor& x, const Group& group) {
  std::vector<torch::Tensor> tensors{x.clone(at::MemoryFormat::Contiguous)};
  group->allreduce(tensors)->wait();
  return tensors[0];
}

/// Stands before a layer that is cut along its outputs: `x` is the same on all ranks, and each computes a part of the
/// outputs from it. backward() gets the gradient of this rank's part alone.
struct CopyToRanks : torch::autograd::Function<CopyToRanks> {
  static torch::Tensor forward(Context* context, const torch::Tensor& x, const Group& group) {
    keep(context, group);
    return x.view_as(x);
  }
  static Gradients backward(Context* context, Gradients gradients) {
    return {all_reduce(gradients[0], kept(context)), {}};  // none of the group
  }
};

/// Stands after a layer that is cut along its inputs: each rank has a part of the sum, and all go on with the sum.
struct SumOverRanks : torch::autograd::Function<SumOverRanks> {
  static torch::Tensor forward(Context* context, const torch::Tensor& partial, const Group& group) {
    keep(context, group);
    return all_reduce(partial, group);
  }
  static Gradients backward(Context* context, Gradients gradients) { return {gradients[0], {}}; }
};

/// A layer cut along its inputs: `x` (n, in / ranks) and `weight` (out, in / ranks) are this rank's, `bias` (out) is
/// the same on all ranks. Returns what the whole layer gives, (n, out), on every rank.
inline torch::Tensor row_parallel(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                                  const Group& group) {
  return SumOverRanks::apply(torch::linear(x, weight), group) + bias;
}
