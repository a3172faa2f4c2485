#pragma once
// What in-place operators should do to a training step, from what was counted on the baseline.

#include <algorithm>
#include <cstdint>

#include "common/harness/lesson.h"
#include "networks.h"

namespace tenfold::inline lesson_23 {

/// Speed when the step moves so many bytes less (or more, if negative) and makes so many new tensors less.
inline double speed_without(const Counted& baseline, int64_t bytes, int64_t new_tensors) {
  const double allocation = baseline.ceiling("cpu_new_tensor_op_seconds") - baseline.ceiling("cpu_op_seconds");
  const double saved = static_cast<double>(bytes) / baseline.ceiling("cpu_copy_bytes_per_s") +
                       static_cast<double>(new_tensors) * allocation;
  return baseline.step_seconds / (baseline.step_seconds - saved);
}

/// Nothing: what changes is how the program is written.
inline Prediction predict_same(const Counted& baseline) {
  return {.speed_ratio = 1.0, .peak_bytes = baseline.peak_bytes};
}

/// Peak: it is in backward(), when the outputs of all convolutions but the last are still needed. A ReLU's result is
/// all that autograd keeps, in place or not. A leaky ReLU's input is kept next to the result that the next convolution
/// keeps; in place it does not exist.
/// Speed: each activation's result is written to memory that the convolution has just written.
inline Prediction predict_activation(const Counted& baseline) {
  const int64_t before_last = 1 + baseline.get(kInnerLayers);
  const int64_t output = convolved_bytes(baseline.get(convnet::kBatch), baseline.get(convnet::kChannels));
  const bool leaky = baseline.get(kActivation) == "leaky_relu";
  // The last convolution has twice the channels and a quarter of the places.
  return {.speed_ratio = speed_without(baseline, before_last * output + output / 2, before_last + 1),
          .peak_bytes = baseline.peak_bytes - (leaky ? before_last * output : 0)};
}

/// One activation of the residual stream, (B, T, D).
inline int64_t stream_bytes(const Counted& baseline) {
  return 4 * baseline.get(gpt::kBatch) * baseline.get(gpt::kLength) * baseline.get(gpt::kWidth);
}

/// The branch's output is freed after the sum in any case, long before the peak. Two sums a block are written where the
/// branch's output was.
inline Prediction predict_residual(const Counted& baseline) {
  const int64_t sums = 2 * baseline.get(gpt::kLayers);
  return {.speed_ratio = speed_without(baseline, sums * stream_bytes(baseline), sums),
          .peak_bytes = baseline.peak_bytes};
}

/// Autograd's copy of the input takes the place of the result: as many tensors as before, and a copy more, which reads
/// and writes the inner layer of four times the width.
inline Prediction predict_gelu(const Counted& baseline) {
  const int64_t copies = baseline.get(gpt::kLayers);
  return {.speed_ratio = speed_without(baseline, -copies * 2 * 4 * stream_bytes(baseline), 0),
          .peak_bytes = baseline.peak_bytes};
}

/// At the end of the update all velocities and all parameters are there twice. A product, the new velocity and the new
/// parameter are written to new memory for each parameter.
inline Prediction predict_new_parameters(const Counted& baseline) {
  return {.speed_ratio = speed_without(baseline, -3 * baseline.parameter_bytes, 0),
          .peak_bytes = std::max(baseline.peak_bytes, baseline.resting_bytes + 2 * baseline.parameter_bytes)};
}

}  // namespace tenfold::inline lesson_23
