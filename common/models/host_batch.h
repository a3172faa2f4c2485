#pragma once
// Batches on their way from the data sets, which lie in ordinary host memory, to the device.
//
// To a GPU they go through page-locked memory, and the copy does not wait: from ordinary memory the host would stand
// still in every step until the GPU has finished the step before. The caching host allocator hands a page-locked buffer
// out again only when the copy that reads it is done. Lesson 11 measures the difference.

#include <torch/torch.h>

#include <vector>

namespace tenfold {

/// Rows `picked` (B) of `rows` (N, ...) on the device: (B, ...). On CUDA the copy is queued on the current stream.
torch::Tensor rows_on(torch::Device device, const torch::Tensor& rows, const torch::Tensor& picked);

/// A CPU tensor on the device, likewise. On the CPU it is the tensor itself.
torch::Tensor tensor_on(torch::Device device, const torch::Tensor& tensor);

/// CPU tensors on the device by one copy, whatever their types: of a batch that is made of several small arrays, each
/// copy would cost a launch. On CUDA they are views of one block, which lives as long as any of them; on the CPU they
/// are the tensors themselves.
std::vector<torch::Tensor> tensors_on(torch::Device device, std::vector<torch::Tensor> tensors);

}  // namespace tenfold
