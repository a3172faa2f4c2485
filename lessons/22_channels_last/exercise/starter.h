#pragma once
// Your answer to exercise 22. Build and check it with: ./tenfold exercise 22
#include <torch/torch.h>

/// Puts a convnet into channels_last: every parameter and buffer of 4 dimensions of `module`, which stay the same
/// tensors, so that an optimizer that was made before trains them. All others stay as they are. Returns the input in
/// channels_last, (N, C, H, W) as before; an input of other than 4 dimensions as it is.
inline torch::Tensor to_channels_last(torch::nn::Module& module, const torch::Tensor& input) {
  // Hint: this is a half of it. What does a convolution do with a weight that lies in NCHW?
  return input.contiguous(at::MemoryFormat::ChannelsLast);
}
