#pragma once
// What attention without its scores should need, from a counted step of eager attention.

#include <algorithm>
#include <cstdint>

#include "common/harness/lesson.h"
#include "common/models/gpt_memory.h"

namespace tenfold::inline lesson_46 {

/// Of eager attention: in each layer the weights of every pair, four bytes, and the mask, one byte, besides what the
/// GPT needs with a fused operator; three more of the weights' size are in flight.
inline int64_t most_bytes(const Trial& trial) {
  const GptOptions options = gpt_options(trial);
  const int64_t mask = options.length * options.length, pairs = options.batch * options.heads * mask;
  return step_peak_bytes(options) + options.layers * (4 * pairs + mask) + 3 * 4 * pairs;
}

/// Peak bytes: the highest of three moments. Parameters and optimizer state are always live. In each layer the weights
/// of every pair, four bytes, and the mask, one byte, give way to one number for each query: q, k, v and the result are
/// kept as before. On top of what the blocks keep come the two gradients of the head's loss, or the working memory of
/// the last block's backward (see lesson 31). `streams_more`: activations of the residual stream's size that each layer
/// keeps besides.
inline int64_t peak_without_scores(const Counted& baseline, int64_t streams_more) {
  const GptBytes gpt(baseline);
  const int64_t length = baseline.get(gpt::kLength);
  const int64_t queries = baseline.get(gpt::kBatch) * baseline.get(gpt::kHeads) * length;
  const int64_t scores = queries * length * 4 + length * length;
  const int64_t sums = queries * 4;
  const int64_t blocks_kept =
      baseline.region("block.forward").retained_bytes - gpt.blocks * (scores - sums - streams_more * gpt.stream);
  const int64_t kept = gpt.states + gpt.stream + blocks_kept;
  const int64_t at_loss = kept + gpt.head_most();
  const int64_t in_block = kept + gpt.other_gradients + gpt.block_working;
  const int64_t at_end = gpt.resting + gpt.stream;
  return std::max({at_loss, in_block, at_end});
}

inline Prediction without_scores(const Counted& baseline) { return {.peak_bytes = peak_without_scores(baseline, 0)}; }

/// Our kernel writes its result head by head, (B, H, T, D / H), and keeps it so for its backward pass; the projection
/// keeps the copy that it reads, (B, T, D). ATen's operator writes the second at once.
inline Prediction result_kept_twice(const Counted& baseline) {
  return {.peak_bytes = peak_without_scores(baseline, 1)};
}

}  // namespace tenfold::inline lesson_46
