// installs as <tenfold/flat_model.h>
#pragma once
// All of a model's parameters in one tensor, and all of its gradients in another: what is exchanged is then one
// message, and nothing is copied for it.

#include <torch/torch.h>

#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <vector>

namespace tenfold {

struct FlatModel {
  torch::Tensor values;     ///< (P): the parameters, in order
  torch::Tensor gradients;  ///< (P): what backward() adds to; zero it before: zero_grad() refuses parts of a tensor
};

/// From now on the parameters and their .grad() are parts of two flat tensors. Make the optimizer afterwards. Throws
/// std::invalid_argument (c10::ValueError) unless all parameters are of one type and on one device.
inline FlatModel flat_model(const std::vector<torch::Tensor>& parameters) {
  const torch::NoGradGuard no_grad;
  TORCH_CHECK_VALUE(!parameters.empty(), "a flat model needs parameters");
  const torch::TensorOptions options = parameters[0].options().requires_grad(false);
  int64_t numbers = 0;
  for (const torch::Tensor& parameter : parameters) {
    TORCH_CHECK_VALUE(parameter.dtype() == options.dtype() && parameter.device() == options.device(),
                      "a flat model needs parameters of one type on one device");
    numbers += parameter.numel();
  }
  FlatModel flat{torch::empty({numbers}, options), torch::zeros({numbers}, options)};
  int64_t begin = 0;
  for (const torch::Tensor& parameter : parameters) {
    const torch::Tensor part = flat.values.narrow(0, begin, parameter.numel()).view(parameter.sizes());
    part.copy_(parameter);
    parameter.set_data(part);
    parameter.mutable_grad() = flat.gradients.narrow(0, begin, parameter.numel()).view(parameter.sizes());
    begin += parameter.numel();
  }
  return flat;
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
