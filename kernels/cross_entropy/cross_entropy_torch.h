#pragma once
// cross_entropy for LibTorch.

#include <torch/torch.h>

#include <tuple>

#include "cross_entropy.h"

namespace tenfold::fused {

/// Mean cross-entropy of `logits` (..., C), float, half or bfloat16, against `targets` (...), int64: a float scalar.
/// Rows whose target is `ignore_index` do not count; NaN when none counts, or when a target is no class. The gradient
/// is computed at once, with the loss: one tensor of the logits' size is kept for backward(), where ATen keeps the
/// logarithms and makes two more. Without grad mode this costs as much. Differentiable once, with respect to `logits`;
/// it repeats its bits. CUDA tensors: the kernels of cross_entropy.h on the current stream. CPU tensors: the same
/// kernels under the microscope, for tests and for looking: very slow. Throws c10::Error for other shapes, types or
/// devices.
torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets,
                            int64_t ignore_index = kernels::kIgnoreIndex);

/// The same, with the gradient in the logits' own place: nothing of their size is allocated before backward(), and they
/// are lost. Autograd is told, so that backward() throws where some other operator has kept the logits. Throws
/// c10::Error besides when they are not contiguous, or a leaf that requires a gradient.
torch::Tensor cross_entropy_(const torch::Tensor& logits, const torch::Tensor& targets,
                             int64_t ignore_index = kernels::kIgnoreIndex);

/// Its two passes by themselves, without a graph, for the operators of kernels/operators: the loss with its gradient,
/// like the logits, times a power of two that depends on their type and rows; and that gradient times the loss's own, a
/// float scalar. Tensors on `meta` get results of the same shapes on `meta`. Throws c10::Error as cross_entropy.
std::tuple<torch::Tensor, torch::Tensor> cross_entropy_forward(const torch::Tensor& logits,
                                                               const torch::Tensor& targets, int64_t ignore_index);
torch::Tensor cross_entropy_backward(const torch::Tensor& gradient, const torch::Tensor& of_logits);

namespace reference {
/// The same by ATen, in the logits' type.
torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets,
                            int64_t ignore_index = kernels::kIgnoreIndex);
}  // namespace reference

}  // namespace tenfold::fused
