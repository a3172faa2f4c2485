#pragma once
// softmax for LibTorch.

#include <torch/torch.h>

namespace tenfold::fused {

/// Softmax over the last dimension, (..., D) -> (..., D); float, half or bfloat16. Differentiable once. CUDA tensors:
/// the kernel of softmax.h on the current stream. CPU tensors: the same kernel under the microscope, for tests and for
/// looking: very slow. An input that is not contiguous is copied first. Throws c10::Error for other shapes, types or
/// devices.
torch::Tensor softmax(const torch::Tensor& input);

/// Its two passes by themselves, without a graph, for the operators of kernels/operators: backward takes the result
/// of forward. Tensors on `meta` get results of the same shapes on `meta`. Throws c10::Error as softmax.
torch::Tensor softmax_forward(const torch::Tensor& input);
torch::Tensor softmax_backward(const torch::Tensor& gradient, const torch::Tensor& result);

namespace reference {
/// The same by ATen.
torch::Tensor softmax(const torch::Tensor& input);
}  // namespace reference

}  // namespace tenfold::fused
