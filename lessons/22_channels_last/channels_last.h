// installs as <tenfold/channels_last.h>
#pragma once
// channels_last: where the numbers of a 4-d tensor lie in memory. Shapes stay (N, C, H, W) and values stay; only
// strides change, so that the C numbers of one pixel are neighbours (NHWC) instead of the W numbers of one row (NCHW).
// PyTorch, tutorial "Channels Last Memory Format in PyTorch": docs.pytorch.org/tutorials/intermediate/
// memory_format_tutorial.html.

#include <torch/torch.h>

namespace tenfold {

/// A tensor of 4 dimensions in channels_last; any other as it is. Copies if the strides are not those already.
///
/// With to() and not with contiguous(): of one channel, or of one pixel, both layouts are the same bytes, so
/// contiguous() hands back the tensor with the strides of NCHW. A convolution reads the layout from the strides, and
/// stays in NCHW.
inline torch::Tensor in_channels_last(const torch::Tensor& tensor) {
  if (tensor.dim() != 4) return tensor;
  return tensor.to(tensor.options(), /*non_blocking=*/false, /*copy=*/false, at::MemoryFormat::ChannelsLast);
}

/// All parameters and buffers of 4 dimensions in channels_last. They stay the same tensors, so an optimizer that has
/// them already goes on with them. Before the first backward() and the first step: gradients and an optimizer's
/// averages of the old layout would be mixed with the new one in every update.
///
/// torch::nn::Module::to() takes a device and a dtype; the memory format that Python's takes is missing
/// (torch/nn/module.h, LibTorch 2.11).
inline void to_channels_last(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : module.parameters()) parameter.set_data(in_channels_last(parameter));
  for (torch::Tensor& buffer : module.buffers()) buffer.set_data(in_channels_last(buffer));
}

}  // namespace tenfold
