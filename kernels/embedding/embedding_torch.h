#pragma once
// embedding for LibTorch.

#include <torch/torch.h>

namespace tenfold::fused {

/// Rows of `weight` (V, D), float, half or bfloat16, picked by `ids` (...), int64: (..., D). An id below 0 or not below
/// V makes its row NaN and adds nothing to the gradient; to refuse it here, a GPU would have to be waited for.
/// Differentiable once, with respect to `weight`: the ids are sorted, and equal ones summed in float and in a fixed
/// order, so that gradients repeat their bits; it is dense, (V, D). CUDA tensors: the kernels of embedding.h on the
/// current stream. CPU tensors: the same kernels under the microscope, for tests and for looking: very slow. Inputs
/// that are not contiguous are copied first. Throws c10::Error for other shapes, types or devices.
torch::Tensor embedding(const torch::Tensor& weight, const torch::Tensor& ids);

/// Its two passes by themselves, without a graph, for the operators of kernels/operators; backward has the gradient
/// of a weight of `vocabulary` rows. Tensors on `meta` get results of the same shapes on `meta`. Throws c10::Error as
/// embedding.
torch::Tensor embedding_forward(const torch::Tensor& weight, const torch::Tensor& ids);
torch::Tensor embedding_backward(const torch::Tensor& gradient, const torch::Tensor& ids,
                                 const c10::SymInt& vocabulary);

namespace reference {
/// The same by ATen, which refuses ids out of range.
torch::Tensor embedding(const torch::Tensor& weight, const torch::Tensor& ids);
}  // namespace reference

}  // namespace tenfold::fused
