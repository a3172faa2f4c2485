#pragma once
// bias_gelu for LibTorch.

#include <torch/torch.h>

#include <tuple>

#include "bias_gelu.h"

namespace tenfold::fused {

using kernels::Gelu;

/// gelu(input + bias), (..., D) -> (..., D), with `bias` (D); float, half or bfloat16, both alike. Differentiable once;
/// gradients repeat their bits. CUDA tensors: the kernel of bias_gelu.h on the current stream. CPU tensors: the same
/// kernel under the microscope, for tests and for looking: very slow. Inputs that are not contiguous are copied first.
/// Throws c10::Error for other shapes, types or devices.
torch::Tensor bias_gelu(const torch::Tensor& input, const torch::Tensor& bias, Gelu form);

/// Its two passes by themselves, without a graph, for the operators of kernels/operators; backward has the gradients
/// of input and bias. Tensors on `meta` get results of the same shapes on `meta`. Throws c10::Error as bias_gelu.
torch::Tensor bias_gelu_forward(const torch::Tensor& input, const torch::Tensor& bias, Gelu form);
std::tuple<torch::Tensor, torch::Tensor> bias_gelu_backward(const torch::Tensor& gradient, const torch::Tensor& input,
                                                            const torch::Tensor& bias, Gelu form);

namespace reference {
/// The same by ATen, in two operators.
torch::Tensor bias_gelu(const torch::Tensor& input, const torch::Tensor& bias, Gelu form);
}  // namespace reference

}  // namespace tenfold::fused
