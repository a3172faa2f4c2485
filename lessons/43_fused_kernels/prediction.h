#pragma once
// What other small operators should need, from a counted step with ATen's.

#include <cstdint>

#include "common/harness/lesson.h"
#include "common/models/gpt_memory.h"

namespace tenfold::inline lesson_43 {

/// What eager operators keep for backward() beyond what ATen's do: a LayerNorm one tensor more (centered and scaled
/// instead of x), a GELU three of four times the width (tanh, 1 + tanh, half the sum). A block has two norms and one
/// GELU; the last norm stands before the head.
inline Prediction keeps_more(const Counted& baseline) {
  const GptBytes gpt(baseline);
  const int64_t more_tensors = gpt.blocks * (2 + 3 * 4) + 1;
  return {.peak_bytes = baseline.peak_bytes + more_tensors * gpt.stream};
}

/// Both keep the input, and mean and deviation of each row.
inline Prediction keeps_the_same(const Counted& baseline) { return {.peak_bytes = baseline.peak_bytes}; }

}  // namespace tenfold::inline lesson_43
