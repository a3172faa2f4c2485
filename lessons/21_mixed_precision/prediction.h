#pragma once
// What 16-bit activations should do to the memory of the GPT's training step. Speed is not predicted: it depends on
// what the hardware does with 16-bit numbers.

#include <algorithm>

#include "common/harness/lesson.h"
#include "common/models/gpt_memory.h"

namespace tenfold::inline lesson_21 {

/// Parameters, gradients and optimizer state do not change. Of what a block keeps, two tensors of the residual stream
/// stay in 32 bits (after the attention and after the MLP), the rest halves; a 16-bit copy of the block's weights joins
/// them until backward() has used it. The peak is at the head or in the last block's backward.
inline Prediction predict_16_bits(const Counted& fp32) {
  if (fp32.workload != gpt_workload) return {};
  const GptBytes bytes(fp32);
  const int64_t weights = 12 * bytes.width * bytes.width;  // of a block
  const int64_t block = (bytes.block_kept - 2 * bytes.stream) / 2 + 2 * bytes.stream + 2 * weights;
  // The loss is computed in 32 bits: the logarithms of the probabilities, and two gradients of that size in backward().
  // The head's weight has a 16-bit copy, too.
  const int64_t logits = bytes.head_kept - bytes.stream;  // besides the norm's output
  const int64_t vocabulary = logits / (4 * bytes.rows);
  const int64_t at_head = bytes.stream / 2 + 3 * logits + 2 * vocabulary * bytes.width;
  // Gradients of the output in both types, of the MLP's inner layer (4 D) in 16 bits, and of its weight in both.
  const int64_t inner = 4 * bytes.stream / 2;
  const int64_t inner_weight = 4 * bytes.width * bytes.width * (4 + 2);
  const int64_t at_last_block = bytes.other_gradients + 3 * bytes.stream / 2 + inner + inner_weight;
  const int64_t peak = bytes.states + bytes.stream + bytes.blocks * block + std::max(at_head, at_last_block);
  return {.peak_bytes = std::max(bytes.resting, peak)};
}

/// TF32 has another precision, but numbers stay 32 bits wide.
inline Prediction predict_tf32(const Counted& fp32) { return {.peak_bytes = fp32.peak_bytes}; }

}  // namespace tenfold::inline lesson_21
