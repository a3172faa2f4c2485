#pragma once
// What two lines of a training loop should add to its peak.

#include <algorithm>

#include "common/harness/lesson.h"
#include "common/models/gpt_memory.h"

namespace tenfold::inline lesson_03 {

/// Gradients that are only set to zero are there at every moment: also at the loss, where a lean step has none yet, in
/// the head's backward, whose new gradient is added to the old one, and in the last block's backward, where a lean step
/// has the head's.
inline Prediction keeps_gradients(const Counted& lean) {
  const GptBytes bytes(lean);
  const int64_t kept = bytes.resting + 16 * bytes.rows + bytes.stream + bytes.blocks * bytes.block_kept;
  const int64_t logits = bytes.head_kept - bytes.stream - 8 * bytes.rows;  // and their gradient
  const int64_t in_head = kept + bytes.stream + logits + logits / bytes.rows * bytes.width;
  return {.peak_bytes = std::max({lean.peak_bytes, kept + bytes.head_most(), in_head, kept + bytes.block_working})};
}

/// One more array of tokens x vocabulary, from one step's forward to the next one's.
inline Prediction holds_logits(const Counted& lean) {
  const GptBytes bytes(lean);
  return {.peak_bytes = lean.peak_bytes + bytes.head_kept - bytes.stream - 8 * bytes.rows};
}

}  // namespace tenfold::inline lesson_03
