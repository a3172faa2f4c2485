#pragma once
// The peak with another optimizer, from a counted step with AdamW: other state, and other temporaries of the update.

#include <algorithm>
#include <cstdint>

#include "common/harness/lesson.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"
#include "settings.h"
#include "state_bytes.h"

namespace tenfold::inline lesson_33 {

/// Of the model that AdamW was counted with.
inline Shapes shapes_of(const Counted& counted) {
  if (counted.workload == mlp_workload)
    return mlp_shapes({.layers = counted.get(mlp::kLayers), .width = counted.get(mlp::kWidth)});
  return gpt_shapes({.layers = counted.get(gpt::kLayers),
                     .width = counted.get(gpt::kWidth),
                     .length = counted.get(gpt::kLength),
                     .tokens = encoding_named(counted.get(gpt::kTokens))});
}

/// The most values that an update has in 32 bits at a time: of a tensor, or of a chunk of one.
inline int64_t most_values(const Shapes& shapes, int64_t chunk) {
  int64_t most = 0;
  for (const Shape& shape : shapes) most = std::max(most, values_of(shape));
  return std::min(most, std::max(kBlock, chunk / kBlock * kBlock));
}

/// With `state` bytes instead of AdamW's, and `working` bytes that the update needs besides. The peak is in the loss
/// and its backward, where there is no update, or in the update, where all gradients are.
inline Prediction peak_with(const Counted& adamw, int64_t state, int64_t working) {
  const int64_t saved = adamw_bytes(shapes_of(adamw)) - state;
  const int64_t in_loss = adamw.state_bytes() - saved + adamw.region("loss").largest_peak_bytes;
  return {.peak_bytes = std::max(in_loss, adamw.resting_bytes - saved + working)};
}

/// Adam has AdamW's averages: not a byte less.
inline Prediction as_before(const Counted& adamw) { return {.peak_bytes = adamw.peak_bytes}; }

/// A chunk's two averages, and the denominators or the random bits.
inline Prediction predict_16_bits(const Counted& adamw) {
  const Shapes shapes = shapes_of(adamw);
  return peak_with(adamw, sixteen_bit_bytes(shapes), 3 * 4 * most_values(shapes, adamw.get(kChunk)));
}

/// A chunk's two averages, and the denominators or what becomes the codes.
inline Prediction predict_8_bits(const Counted& adamw) {
  const Shapes shapes = shapes_of(adamw);
  return peak_with(adamw, eight_bit_bytes(shapes), 3 * 4 * most_values(shapes, adamw.get(kChunk)));
}

/// All averages of the large tensors once more, in 32 bits, and one tensor's denominators.
inline Prediction predict_whole_copy(const Counted& adamw) {
  const Shapes shapes = shapes_of(adamw);
  int64_t copies = 0, largest = 0;
  for (const Shape& shape : shapes) {
    if (values_of(shape) >= kFewestValues) copies += 8 * values_of(shape);
    largest = std::max(largest, 4 * values_of(shape));
  }
  return peak_with(adamw, eight_bit_bytes(shapes), copies + largest);
}

/// One tensor's update at a time.
inline Prediction predict_adafactor(const Counted& adamw) {
  const Shapes shapes = shapes_of(adamw);
  return peak_with(adamw, adafactor_bytes(shapes), 4 * most_values(shapes, values_of(shapes)));
}

}  // namespace tenfold::inline lesson_33
