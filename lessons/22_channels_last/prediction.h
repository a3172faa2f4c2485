#pragma once
// What channels_last should do to the memory of a training step. Speed is not predicted: which layout a library's
// convolutions are fastest in depends on the processor, on the number type and on the shape.

#include <algorithm>
#include <cstdint>

#include "common/harness/lesson.h"
#include "networks.h"

namespace tenfold::inline lesson_22 {

/// The convnet's step where no library keeps copies in a layout of its own, as on a GPU: the peak is at the ReLU in
/// front of the last convolution, with three tensors of the first output's size and one more for each inner layer.
inline int64_t peak_without_blocks(const Counted& nchw) {
  const int64_t channels = nchw.get(convnet::kChannels), batch = nchw.get(convnet::kBatch);
  return step_peak_bytes({.channels = channels}, batch, torch::kCUDA) +
         nchw.get(kInnerLayers) * (convolved_bytes(batch, channels) + 2 * inner_bytes(channels, nchw.get(kGroups)));
}

/// A GPU's step needs as many bytes in both layouts. On a CPU oneDNN reorders plain NCHW into blocks of channels and
/// back: in the backward pass of the last convolution the gradient of the input exists three times. It writes
/// channels_last as it is. What is left to be the peak is the backward pass of max pooling, which on a CPU copies its
/// indices (64 bits each) and its result, (B, 2 C, 14, 14), from one layout to the other: in outputs of the first
/// convolution its input and result are half of one each, both copies of the indices a quarter, the gradient an eighth.
inline Prediction predict_channels_last(const Counted& nchw) {
  if (nchw.workload == gpt_workload) return {.speed_ratio = 1.0, .peak_bytes = nchw.peak_bytes};
  if (!nchw.device.is_cpu()) return {.peak_bytes = nchw.peak_bytes};
  const int64_t output = convolved_bytes(nchw.get(convnet::kBatch), nchw.get(convnet::kChannels));
  // 1 for the first activation, 3/2 for the second and both results, 1/2 for the indices, 1/8: an eighth above 3.
  const int64_t at_pooling = peak_without_blocks(nchw) + output / 8;
  return {.peak_bytes = std::min(nchw.peak_bytes, at_pooling)};
}

/// The sum that falls back is a tensor more. The convolution behind it keeps the sum in NCHW, and reorders it once more
/// in the backward pass: where that is the last one, both are there with half a tensor and a whole one of gradients.
inline Prediction predict_fallback(const Counted& nchw) {
  const int64_t output = convolved_bytes(nchw.get(convnet::kBatch), nchw.get(convnet::kChannels));
  return {.peak_bytes = peak_without_blocks(nchw) + (nchw.get(kInnerLayers) == 0 ? output + output / 2 : output)};
}

}  // namespace tenfold::inline lesson_22
