#pragma once
// rms_norm for LibTorch.

#include <torch/torch.h>

namespace tenfold::fused {

/// Root-mean-square normalisation over the last dimension, (..., D) -> (..., D), with `weight` (D); float, half or
/// bfloat16, both alike. Differentiable once; gradients repeat their bits. CUDA tensors: the kernel of rms_norm.h on
/// the current stream. CPU tensors: the same kernel under the microscope, for tests and for looking: very slow. Inputs
/// that are not contiguous are copied first. Throws c10::Error for other shapes, types or devices.
torch::Tensor rms_norm(const torch::Tensor& input, const torch::Tensor& weight, double epsilon = 1e-5);

namespace reference {
/// The same by ATen.
torch::Tensor rms_norm(const torch::Tensor& input, const torch::Tensor& weight, double epsilon = 1e-5);
}  // namespace reference

}  // namespace tenfold::fused
