#pragma once
// rope for LibTorch.

#include <torch/torch.h>

namespace tenfold::fused {

/// What rope() turns by. Both are float tensors (positions, head_dim / 2).
struct RopeAngles {
  torch::Tensor cosines, sines;
};

/// The usual angles: position p turns pair i by p / base^(2 i / head_dim). Computed in double. Throws c10::Error for a
/// size below 1 or an odd head_dim.
RopeAngles rope_angles(int64_t positions, int64_t head_dim, double base = 10000, torch::Device device = torch::kCPU);

/// Rotary position embedding of queries or keys, (..., T, H, head_dim) -> the same shape: token t of a sequence is
/// turned by row t of the tables, which need T rows at least; elements i and i + head_dim / 2 are a pair. Float, half
/// or bfloat16. The result is a new tensor. Differentiable once, with respect to `input`; backward() turns back and
/// keeps nothing but the tables. CUDA tensors: the kernel of rope.h on the current stream. CPU tensors: the same kernel
/// under the microscope, for tests and for looking: very slow. Throws c10::Error for other shapes, types or devices.
torch::Tensor rope(const torch::Tensor& input, const RopeAngles& angles);

/// The same without a graph, for the operators of kernels/operators; `inverse` turns back, which is the gradient.
/// Tensors on `meta` get a result of the same shape on `meta`. Throws c10::Error as rope.
torch::Tensor rope_forward(const torch::Tensor& input, const RopeAngles& angles, bool inverse);

namespace reference {
/// The same by ATen, in several operators.
torch::Tensor rope(const torch::Tensor& input, const RopeAngles& angles);
}  // namespace reference

}  // namespace tenfold::fused
