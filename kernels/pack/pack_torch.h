#pragma once
// pack and unpack for LibTorch.

#include <torch/torch.h>

#include <cstdint>

namespace tenfold::fused {

/// The rows of `padded` (batch, length, ...) that are no padding, as (total, ...): sequence b becomes rows
/// cu_seqlens[b] to cu_seqlens[b + 1] - 1. `cu_seqlens` (batch + 1) is int32 or int64, on the same device, ascending
/// from 0 to `total`; its values are not looked at here, since that would wait for the device: see pack.h for what
/// wrong ones do. float, half or bfloat16, differentiable once in `padded`; the gradient of padding is 0. CUDA tensors:
/// the kernel on the current stream. CPU tensors: the same kernel under the microscope, for tests and for looking: very
/// slow. Inputs that are not contiguous are copied first. Throws c10::Error for other shapes, types or devices.
torch::Tensor pack(const torch::Tensor& padded, const torch::Tensor& cu_seqlens, int64_t total);

/// The inverse: `packed` (total, ...) as (batch, length, ...), with `padding` behind each sequence's end.
/// Differentiable once in `packed`; what flows into padding is lost. Else as pack.
torch::Tensor unpack(const torch::Tensor& packed, const torch::Tensor& cu_seqlens, int64_t length, double padding = 0);

/// The same without a graph, for the operators of kernels/operators; each is the other's gradient. Tensors on `meta`
/// get results of the same shapes on `meta`. Throw c10::Error as pack and unpack.
torch::Tensor pack_forward(const torch::Tensor& padded, const torch::Tensor& cu_seqlens, const c10::SymInt& total);
torch::Tensor unpack_forward(const torch::Tensor& packed, const torch::Tensor& cu_seqlens, const c10::SymInt& length,
                             double padding);

namespace reference {
/// The same by ATen.
torch::Tensor pack(const torch::Tensor& padded, const torch::Tensor& cu_seqlens, int64_t total);
torch::Tensor unpack(const torch::Tensor& packed, const torch::Tensor& cu_seqlens, int64_t length, double padding = 0);
}  // namespace reference

}  // namespace tenfold::fused
