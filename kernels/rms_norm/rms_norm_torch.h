#pragma once
// rms_norm for LibTorch.

#include <torch/torch.h>

#include <tuple>

namespace tenfold::fused {

/// Root-mean-square normalisation over the last dimension, (..., D) -> (..., D), with `weight` (D); float, half or
/// bfloat16, both alike. Differentiable once; gradients repeat their bits. CUDA tensors: the kernel of rms_norm.h on
/// the current stream. CPU tensors: the same kernel under the microscope, for tests and for looking: very slow. Inputs
/// that are not contiguous are copied first. Throws c10::Error for other shapes, types or devices.
torch::Tensor rms_norm(const torch::Tensor& input, const torch::Tensor& weight, double epsilon = 1e-5);

/// Its two passes by themselves, without a graph, for the operators of kernels/operators: the result with 1 / root
/// mean square of each row, (rows) in float; and the gradients of input and weight. Tensors on `meta` get results of
/// the same shapes on `meta`. Throws c10::Error as rms_norm, also for what backward is given.
std::tuple<torch::Tensor, torch::Tensor> rms_norm_forward(const torch::Tensor& input, const torch::Tensor& weight,
                                                          double epsilon);
std::tuple<torch::Tensor, torch::Tensor> rms_norm_backward(const torch::Tensor& gradient, const torch::Tensor& input,
                                                           const torch::Tensor& weight, const torch::Tensor& rstd);

namespace reference {
/// The same by ATen.
torch::Tensor rms_norm(const torch::Tensor& input, const torch::Tensor& weight, double epsilon = 1e-5);
}  // namespace reference

}  // namespace tenfold::fused
