// installs as <tenfold/flat_model.h>
#pragma once
// All of a model's parameters in one tensor, and all of its gradients in another: what is exchanged is then one
// message, and nothing is copied for it.

#include <torch/torch.h>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "lessons/53_zero/flat_unit.h"

namespace tenfold {

struct FlatModel {
  torch::Tensor values;  ///< (P): the parameters, in order, with gaps of zeros
  /// (P): what backward() adds to. Zero it before, not by zero_grad(): its default drops the parts, and backward() then
  /// writes gradients of which no exchange knows. require_attached() finds that.
  torch::Tensor gradients;
};

/// Where each parameter begins in a flat model, and last P: at multiples of 16 bytes, as kernels want it. A tied
/// parameter, which is in the list more than once, lies where it first stands.
inline std::vector<int64_t> flat_begins(const std::vector<torch::Tensor>& parameters) {
  std::vector<int64_t> begins;
  std::unordered_map<const void*, int64_t> placed;
  int64_t end = 0;
  for (const torch::Tensor& parameter : parameters) {
    const auto [place, is_new] = placed.try_emplace(parameter.unsafeGetTensorImpl(), end);
    begins.push_back(place->second);
    if (is_new) end = aligned_begin(end + parameter.numel(), static_cast<int64_t>(parameter.element_size()));
  }
  begins.push_back(end);
  return begins;
}

/// From now on the parameters and their .grad() are parts of two flat tensors. Make the optimizer afterwards, of each
/// parameter once. They lie contiguous: channels_last is lost. Throws std::invalid_argument (c10::ValueError) unless
/// all parameters are trainable, of one type and on one device: a frozen one would get a gradient of zeros, and weight
/// decay would shrink it.
inline FlatModel flat_model(const std::vector<torch::Tensor>& parameters) {
  const torch::NoGradGuard no_grad;
  // Below autograd, to which they are then no views: zero_grad(false) detaches gradients in place, which is refused to
  // views.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  TORCH_CHECK_VALUE(!parameters.empty(), "a flat model needs parameters");
  const torch::TensorOptions options = parameters[0].options().requires_grad(false);
  for (const torch::Tensor& parameter : parameters) {
    TORCH_CHECK_VALUE(parameter.requires_grad(), "a flat model takes trainable parameters alone");
    TORCH_CHECK_VALUE(parameter.dtype() == options.dtype() && parameter.device() == options.device(),
                      "a flat model needs parameters of one type on one device");
  }
  const std::vector<int64_t> begins = flat_begins(parameters);
  FlatModel flat{torch::zeros({begins.back()}, options), torch::zeros({begins.back()}, options)};
  for (size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& parameter = parameters[i];
    const auto part_of = [&](const torch::Tensor& all) {
      return all.narrow(0, begins[i], parameter.numel()).view(parameter.sizes());
    };
    const torch::Tensor part = part_of(flat.values);
    part.copy_(parameter);
    parameter.set_data(part);
    parameter.mutable_grad() = part_of(flat.gradients);
  }
  return flat;
}

/// Throws c10::Error where a parameter or its .grad() is no part of the flat model any more, as after zero_grad() or
/// to(): what is exchanged would then not be what is trained. Call it before an exchange; the device is not asked.
inline void require_attached(const FlatModel& flat, const std::vector<torch::Tensor>& parameters) {
  for (const torch::Tensor& parameter : parameters) {
    TORCH_CHECK(parameter.is_alias_of(flat.values),
                "a parameter left the flat model: move the model before it is made");
    TORCH_CHECK(parameter.grad().defined() && parameter.grad().is_alias_of(flat.gradients),
                "a gradient left the flat model: zero flat.gradients, and do not call zero_grad()");
  }
}

/// Replaces a tensor by its mean over the ranks: divided before the sum, which fewer bits may not hold. Without a group
/// there is one rank, and nothing to do. Region "communication".
inline void mean_over_ranks(const torch::Tensor& tensor, const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  if (!group) return;
  RECORD_USER_SCOPE("communication");
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> tensors{tensor.div_(group->getSize())};
  group->allreduce(tensors)->wait();
}

}  // namespace tenfold
