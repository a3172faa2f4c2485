#pragma once
// The memory of a GPT's training step, for predictions: from a counted step of the baseline to the bytes of its parts.

#include <algorithm>
#include <cstdint>

#include "common/measure/counted.h"
#include "common/models/gpt.h"

namespace tenfold {

/// The model and batch that the baseline was counted with, as gpt_options(trial) gave them. Throws
/// std::invalid_argument where no variant read one of the settings.
inline GptOptions gpt_options(const Counted& baseline) {
  return {.layers = baseline.get(gpt::kLayers),
          .width = baseline.get(gpt::kWidth),
          .heads = baseline.get(gpt::kHeads),
          .length = baseline.get(gpt::kLength),
          .batch = baseline.get(gpt::kBatch),
          .dropout = baseline.get(gpt::kDropout),
          .tokens = encoding_named(baseline.get(gpt::kTokens))};
}

/// step_peak_bytes() with what dropout adds, if there is any: in each block the masks of both residual branches (a byte
/// a number) and what was left of them; and on a CPU, where attention with dropout has no fused operator, the weights
/// of every pair before and after it with a mask, and two more in flight.
inline int64_t step_peak_bytes(const GptOptions& options, torch::Device device) {
  int64_t bytes = step_peak_bytes(options);
  if (options.dropout == 0) return bytes;
  bytes += options.layers * 10 * options.batch * options.length * options.width;
  if (device.is_cpu()) {
    const int64_t pairs = options.batch * options.heads * options.length * options.length;
    bytes += options.layers * 12 * pairs + 8 * pairs;
  }
  return bytes;
}

/// Bytes of 32-bit numbers, of the model and batch that the baseline was counted with.
struct GptBytes {
  explicit GptBytes(const Counted& baseline)
      : rows(baseline.get(gpt::kBatch) * baseline.get(gpt::kLength)),
        width(baseline.get(gpt::kWidth)),
        blocks(baseline.region("block.forward").calls),
        states(baseline.state_bytes()),
        resting(baseline.resting_bytes),
        stream(rows * width * 4),
        block_kept(baseline.region("block.forward").retained_bytes / blocks),
        head_kept(baseline.region("head.forward").retained_bytes),
        head_peak(baseline.region("head.forward").largest_peak_bytes),
        block_gradients(block_parameter_bytes(width)),
        other_gradients(baseline.gradient_bytes - blocks * block_gradients),
        block_working((baseline.get(gpt::kDropout) > 0 ? 6 : 5) * stream + 4 * width * width * 4) {}

  int64_t rows;        ///< tokens of a batch
  int64_t width;       ///< features of a token
  int64_t blocks;      ///< transformer blocks
  int64_t states;      ///< parameters and optimizer state
  int64_t resting;     ///< states and gradients: what lives between two steps
  int64_t stream;      ///< one activation of the residual stream, (B, T, D)
  int64_t block_kept;  ///< what a block's forward keeps for its backward
  int64_t head_kept;   ///< what the head and the loss keep: the norm's output and the logarithms of the probabilities
  int64_t head_peak;   ///< most that the head's forward adds at a time
  int64_t block_gradients;  ///< of one block's parameters
  int64_t other_gradients;  ///< of embeddings, last norm and head
  /// What is live at the start of a block's backward besides what forward kept: the gradients of its output, of the
  /// MLP's inner layer (4 D) and, with dropout, of its mask; and the gradient of the inner layer's weight (4 D, D).
  int64_t block_working;

  /// The highest moment at the head: in its forward, or in its backward, which makes two gradients of the logits' size.
  int64_t head_most() const { return std::max(head_peak, head_kept + 2 * (head_kept - stream)); }
};

}  // namespace tenfold
