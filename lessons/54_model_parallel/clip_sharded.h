// installs as <tenfold/clip_sharded.h>
#pragma once
// Clipping the norm of the gradients of a model whose parameters are divided over ranks by tensor, pipeline or expert
// parallelism. A rank's own gradients have another norm on each rank: what every rank has whole, such as LayerNorm's
// weights, would be scaled apart, and no error says so. Megatron-LM counts the same way (clip_grads.py): what is whole
// on one rank alone.

#include <torch/torch.h>

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "tensor_group.h"

namespace tenfold {

namespace clip_sharded {

/// The gradients that there are. LibTorch lists a tied parameter under each of its names: it is taken once.
inline std::vector<torch::Tensor> gradients_of(const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> gradients;
  std::unordered_set<const void*> seen;
  for (const torch::Tensor& parameter : parameters) {
    if (parameter.grad().defined() && seen.insert(parameter.unsafeGetTensorImpl()).second)
      gradients.push_back(parameter.grad());
  }
  return gradients;
}

/// Sum of their squares, a scalar in 32 bits. In 16 the square of a norm of 256 is infinite.
inline torch::Tensor square_of(const std::vector<torch::Tensor>& parameters, const torch::Device& device) {
  const std::vector<torch::Tensor> gradients = gradients_of(parameters);
  if (gradients.empty()) return torch::zeros({}, torch::TensorOptions(torch::kFloat).device(device));
  const auto is_double = [](const torch::Tensor& gradient) { return gradient.scalar_type() == torch::kDouble; };
  const auto type = std::ranges::any_of(gradients, is_double) ? torch::kDouble : torch::kFloat;
  return torch::stack(torch::_foreach_norm(gradients, 2, type)).square().sum().to(torch::kFloat);
}

/// Where a rank's scalars are: with its parameters, and if it has none, where the group's collectives are.
inline torch::Device device_of(const std::vector<torch::Tensor>& cut, const std::vector<torch::Tensor>& whole,
                               const TensorGroup& group) {
  if (!cut.empty()) return cut[0].device();
  if (!whole.empty()) return whole[0].device();
  if (!group.pointer()) return torch::kCPU;
  const auto of_group = group.pointer()->getDeviceTypes();
  return std::ranges::find(of_group, torch::Device(torch::kCUDA)) != of_group.end() ? torch::kCUDA : torch::kCPU;
}

}  // namespace clip_sharded

/// Sum of the squares of all ranks' gradients, a scalar in 32 bits. Of `cut` every rank's are counted, of `whole` the
/// first rank's alone: all ranks get the same number to the last bit, also where rounding differs. One all-reduce of 4
/// bytes, which every rank must call, also one without gradients or parameters.
inline torch::Tensor gradient_square(const std::vector<torch::Tensor>& cut, const std::vector<torch::Tensor>& whole,
                                     const TensorGroup& group) {
  const torch::NoGradGuard no_grad;
  const torch::Device device = clip_sharded::device_of(cut, whole, group);
  const torch::Tensor square = clip_sharded::square_of(cut, device);
  if (group.rank() == 0) square.add_(clip_sharded::square_of(whole, device));
  return group.sum(square);
}

/// Scales gradients whose norm, over all ranks, is `norm` (a scalar) so that it is at most `max_norm`.
inline void scale_gradients(const std::vector<torch::Tensor>& parameters, const torch::Tensor& norm, double max_norm) {
  const torch::NoGradGuard no_grad;
  const std::vector<torch::Tensor> gradients = clip_sharded::gradients_of(parameters);
  if (!gradients.empty()) torch::_foreach_mul_(gradients, (max_norm / (norm + 1e-6)).clamp_max(1));
}

/// torch::nn::utils::clip_grad_norm_() for a model that is divided over the ranks of `group`. Between backward() (or a
/// GradScaler's unscale_()) and the optimizer's step: scales the gradients so that the norm of all of them, over all
/// ranks, is at most `max_norm`. Returns the norm before, a scalar in 32 bits, the same on all ranks; the host waits
/// for nothing. Every rank must call it. A rank's parameters lie on one device; without a group there is one rank.
///
/// `cut`: parameters of which ranks have different parts: cut weights, a stage's weights, a rank's experts. `whole`:
/// those that are equal on the ranks and whose gradients are, too; rank 0's are counted, all are scaled. So is a weight
/// that the first and the last stage of a pipeline share.
///
/// A group for data parallelism is none of its business: average first. Where two groups divide the model, such as a
/// pipeline of tensor-parallel stages, sum over one after the other; a weight that two stages share then stands in the
/// lists of one of them alone, and all scale theirs:
///
///   const torch::Tensor norm = pipeline.sum(tenfold::gradient_square(cut, whole, tensor)).sqrt();
///   tenfold::scale_gradients(model->parameters(), norm, 1.0);
inline torch::Tensor clip_grad_norm_sharded(const std::vector<torch::Tensor>& cut,
                                            const std::vector<torch::Tensor>& whole, double max_norm,
                                            const TensorGroup& group) {
  const torch::Tensor norm = gradient_square(cut, whole, group).sqrt_();
  scale_gradients(cut, norm, max_norm);
  scale_gradients(whole, norm, max_norm);
  return norm;
}

}  // namespace tenfold
