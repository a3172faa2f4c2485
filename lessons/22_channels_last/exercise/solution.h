#pragma once
// The kept solution of exercise 22; CI proves that it passes.
#include <torch/torch.h>

/// Puts a convnet into channels_last: every parameter and buffer of 4 dimensions of `module`, which stay the same
/// tensors, so that an optimizer that was made before trains them. All others stay as they are. Returns the input in
/// channels_last, (N, C, H, W) as before; an input of other than 4 dimensions as it is.
inline torch::Tensor to_channels_last(torch::nn::Module& module, const torch::Tensor& input) {
  const auto converted = [](const torch::Tensor& tensor) {
    if (tensor.dim() != 4) return tensor;
    return tensor.to(tensor.options(), /*non_blocking=*/false, /*copy=*/false, at::MemoryFormat::ChannelsLast);
  };
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : module.parameters()) parameter.set_data(converted(parameter));
  for (torch::Tensor& buffer : module.buffers()) buffer.set_data(converted(buffer));
  return converted(input);
}
