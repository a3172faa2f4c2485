#pragma once
// layer_norm for LibTorch.

#include <torch/torch.h>

#include <tuple>

namespace tenfold::fused {

/// Layer normalisation over the last dimension, (..., D) -> (..., D), with `weight` and `bias` (D); float, half or
/// bfloat16, all three alike. Differentiable once; gradients repeat their bits. CUDA tensors: the kernel of
/// layer_norm.h on the current stream. CPU tensors: the same kernel under the microscope, for tests and for looking:
/// very slow. Inputs that are not contiguous are copied first. Throws c10::Error for other shapes, types or devices.
torch::Tensor layer_norm(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
                         double epsilon = 1e-5);

/// Its two passes by themselves, without a graph, for the operators of kernels/operators: the result with mean and
/// 1 / standard deviation of each row, both (rows) in float; and the gradients of input, weight and bias. Tensors on
/// `meta` get results of the same shapes on `meta`. Throws c10::Error as layer_norm, also for what backward is given.
std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> layer_norm_forward(const torch::Tensor& input,
                                                                           const torch::Tensor& weight,
                                                                           const torch::Tensor& bias, double epsilon);
std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> layer_norm_backward(const torch::Tensor& gradient,
                                                                            const torch::Tensor& input,
                                                                            const torch::Tensor& weight,
                                                                            const torch::Tensor& mean,
                                                                            const torch::Tensor& rstd);

namespace reference {
/// The same by ATen.
torch::Tensor layer_norm(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
                         double epsilon = 1e-5);
}  // namespace reference

}  // namespace tenfold::fused
