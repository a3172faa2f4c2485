#pragma once
// flash_attention for LibTorch.

#include <torch/torch.h>

#include <tuple>

namespace tenfold::fused {

/// softmax(q k^T / sqrt(D)) v for each head, without a matrix of scores in memory: q (B, H, T, D), k and v (B, H, S, D)
/// -> (B, H, T, D); float, half or bfloat16; D is 32, 64 or 128. With `causal`, query i sees keys 0 to i.
/// Differentiable once; for that it keeps q, k, v, the result, and a float for each query. CUDA tensors: the kernels of
/// flash_attention.h on the current stream, half and bfloat16 on tensor cores from compute capability 8.0 on. CPU
/// tensors: the same kernels under the microscope, for tests and for looking: very slow. Inputs that are not contiguous
/// are copied first. Throws c10::Error for other shapes, types or devices.
torch::Tensor flash_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, bool causal);

/// Its two passes by themselves, without a graph, for the operators of kernels/operators: the result with the
/// logarithm of each query's sum of exponentials, (B, H, T) in float; and the gradients of queries, keys and values.
/// Tensors on `meta` get results of the same shapes on `meta`. Throws c10::Error as flash_attention, also for what
/// backward is given.
std::tuple<torch::Tensor, torch::Tensor> flash_attention_forward(const torch::Tensor& queries,
                                                                 const torch::Tensor& keys, const torch::Tensor& values,
                                                                 bool causal);
std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> flash_attention_backward(
    const torch::Tensor& gradient, const torch::Tensor& queries, const torch::Tensor& keys, const torch::Tensor& values,
    const torch::Tensor& result, const torch::Tensor& logsumexp, bool causal);

namespace reference {
/// The same by ATen.
torch::Tensor flash_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v, bool causal);
}  // namespace reference

}  // namespace tenfold::fused
