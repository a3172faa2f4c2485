#pragma once
// The peak with another optimizer, from a counted step with AdamW: other state, and other temporaries of the update.

#include <algorithm>
#include <cstdint>

#include "common/harness/lesson.h"
#include "common/measure/changed_step.h"
#include "common/models/gpt_memory.h"
#include "common/models/mlp.h"
#include "settings.h"
#include "state_bytes.h"

namespace tenfold::inline lesson_33 {

/// Of the model that AdamW was counted with.
inline Shapes shapes_of(const Counted& counted) {
  if (counted.workload == mlp_workload)
    return mlp_shapes({.layers = counted.get(mlp::kLayers), .width = counted.get(mlp::kWidth)});
  return gpt_shapes(gpt_options(counted));
}

/// The most values that an update has in 32 bits at a time: of a tensor, or of a chunk of one.
inline int64_t most_values(const Shapes& shapes, int64_t chunk) {
  int64_t most = 0;
  for (const Shape& shape : shapes) most = std::max(most, values_of(shape));
  return std::min(most, std::max(kBlock, chunk / kBlock * kBlock));
}

/// With `state` bytes instead of AdamW's, and `working` bytes that the update needs besides.
inline Prediction peak_with(const Counted& adamw, int64_t state, int64_t working) {
  return {.peak_bytes = peak_with_update(adamw, adamw_bytes(shapes_of(adamw)) - state, working)};
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
