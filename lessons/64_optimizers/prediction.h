#pragma once
// What another optimizer should do to a step with AdamW: other state, other temporaries of the update, and of Muon the
// matmuls of Newton-Schulz.

#include <algorithm>
#include <cstdint>

#include "common/harness/lesson.h"
#include "common/measure/changed_step.h"
#include "common/models/gpt_memory.h"
#include "settings.h"
#include "state_bytes.h"

namespace tenfold::inline lesson_64 {

/// Of the model that AdamW was counted with.
inline ModelShapes shapes_of(const Counted& counted) {
  if (counted.workload == mlp_workload)
    return shapes_for_muon(MlpOptions{.layers = counted.get(mlp::kLayers), .width = counted.get(mlp::kWidth)});
  if (counted.workload == convnet_workload)
    return shapes_for_muon(ConvNetOptions{.channels = counted.get(convnet::kChannels)});
  return shapes_for_muon(gpt_options(counted));
}

inline int64_t largest_values(const Shapes& shapes) {
  int64_t most = 0;
  for (const Shape& shape : shapes) most = std::max(most, values_of(shape));
  return most;
}

/// With `state` bytes instead of AdamW's, and `working` bytes that the update needs besides.
inline Prediction peak_with(const Counted& adamw, int64_t state, int64_t working) {
  return {.peak_bytes = peak_with_update(adamw, adamw_state(shapes_of(adamw)) - state, working)};
}

/// Two: the denominators, and what they divide. AdamW of LibTorch has two as well.
inline Prediction predict_schedule_free(const Counted& adamw) {
  const ModelShapes shapes = shapes_of(adamw);
  return peak_with(adamw, schedule_free_state(shapes), 8 * largest_values(shapes.all));
}

/// Most temporaries of one matrix's update. On a CPU the momentum's look ahead, X before and after, in 32 bits, 16 bits
/// of X while it is rounded, and two square matrices in 32; on a GPU all but the first in 16.
inline int64_t muon_working_bytes(const Shape& matrix, bool rounded) {
  const int64_t values = values_of(matrix), side = std::min(matrix.at(0), matrix.at(1));
  return rounded ? 14 * values + 8 * side * side : 8 * values + 4 * side * side;
}

/// Peak: one average less of each hidden matrix. Speed: the matmuls of Newton-Schulz come on top of AdamW's step, by
/// the device's ceilings; on a CPU also the rounding of each result to 16 bits and back, which moves 12 bytes a value.
inline Prediction predict_muon(const Counted& adamw) {
  const ModelShapes shapes = shapes_of(adamw);
  Shapes rest = shapes.all;  // what AdamW keeps
  for (const Shape& shape : shapes.hidden) rest.erase(std::ranges::find(rest, shape));
  int64_t working = 8 * largest_values(rest);
  const bool rounded = adamw.device.is_cpu() && !adamw.get(kNativeBf16);
  double rounding = 0, operators = 0;
  for (const Shape& matrix : shapes.hidden) {
    working = std::max(working, muon_working_bytes(matrix, rounded));
    const auto side = static_cast<double>(std::min(matrix.at(0), matrix.at(1)));
    rounding += rounded ? 5 * 12 * (2 * side * side + static_cast<double>(values_of(matrix))) : 0;
    operators += 5 * (rounded ? 9 : 3) + 12;
  }
  Prediction prediction = peak_with(adamw, muon_state(shapes), working);
  if (shapes.hidden.empty()) {
    prediction.speed_ratio = 1;
    return prediction;
  }
  const double flop = newton_schulz_flop(shapes.hidden);
  const double more =
      adamw.device.is_cpu()
          ? flop / adamw.ceiling("cpu_flops_per_s") + rounding / adamw.ceiling("cpu_copy_bytes_per_s") +
                operators * adamw.ceiling("cpu_new_tensor_op_seconds")
          : std::max(flop / adamw.ceiling("cuda_flops_bf16"), operators * adamw.ceiling("cuda_launch_seconds"));
  prediction.speed_ratio = speed_with(adamw, more);
  return prediction;
}

}  // namespace tenfold::inline lesson_64
