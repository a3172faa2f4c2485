#pragma once
// What the loss in chunks should cost, from a counted step of the plain loss.

#include <algorithm>
#include <cstdint>

#include "chunked_linear_cross_entropy.h"
#include "common/harness/lesson.h"
#include "common/measure/changed_step.h"
#include "common/models/gpt_memory.h"
#include "common/models/precision.h"

namespace tenfold::inline lesson_44 {

inline constexpr Setting<int64_t> kChunkRows{
    "chunk_rows", 0, "rows of logits at a time; 0: as many as make a chunk as large as the hidden states, at least 64"};

/// Most bytes of a step of the plain loss. In 16 bits the loss's tensors are as large as in 32, and there are copies of
/// the weights and of the head's input besides.
inline int64_t most_bytes(const Trial& trial) {
  const GptOptions options = gpt_options(trial);
  const bool sixteen_bits = trial.get(kPrecision) == "bfloat16";
  const int64_t copies = 2 * options.batch * options.length * options.width + parameter_bytes(options) / 2;
  return gpt_most_bytes(trial) + (sixteen_bits ? copies : 0);
}

/// Bytes of the head's tensors, and the chunks that its logits would be cut into.
struct HeadBytes {
  explicit HeadBytes(const Counted& baseline) : sixteen_bits(baseline.get(kPrecision) == "bfloat16") {
    const GptBytes gpt(baseline);
    const int64_t classes = gpt_options(baseline).vocabulary(), asked = baseline.get(kChunkRows);
    const int64_t of_chunk = std::min(gpt.rows, asked > 0 ? asked : default_chunk_rows(gpt.rows, gpt.width, classes));
    logits = gpt.rows * classes * 4;
    weight = classes * gpt.width * 4;
    chunk = of_chunk * classes * 4;
    chunks = (gpt.rows + of_chunk - 1) / of_chunk;
  }

  bool sixteen_bits;
  int64_t logits, weight, chunk;  ///< of all rows; of the head; of one chunk's logits; 4 bytes a number
  int64_t chunks;
};

/// Peak bytes: the highest of four moments. Parameters and optimizer state are always live, and until backward() has
/// freed it, so is what the blocks keep.
///   in a chunk            both gradients of the loss, as far as they are computed, and one chunk's logits; in 16 bits
///                         copies of the norm's output, of the weight and of the chunk besides
///   the loss's backward() both gradients twice: as forward left them, and multiplied by the loss's own gradient; or in
///                         16 bits, and the weight's in 32
///   the last block        the head's gradient, the block's working memory (see lesson 31)
///   at the end            all gradients, and the one that arrives at the embeddings
inline int64_t peak_in_chunks(const Counted& baseline, const HeadBytes& head) {
  const GptBytes gpt(baseline);
  const int64_t kept = gpt.states + gpt.stream + baseline.region("block.forward").retained_bytes;
  const int64_t at_loss = kept + 2 * gpt.stream + head.weight;  // the norm's output, and the gradients
  int64_t in_chunk = at_loss + head.chunk;
  int64_t in_backward = at_loss + gpt.stream + head.weight;
  if (head.sixteen_bits) {
    // The gradient of the hidden states is in 16 bits, as their copy is; at the end that of the weight becomes so.
    in_chunk = at_loss + head.weight / 2 + std::max(head.chunk * 3 / 2, head.weight / 2);
    in_backward = kept + std::max(gpt.stream + head.weight, (gpt.stream + 3 * head.weight) / 2);
  }
  const int64_t in_block = kept + head.weight + gpt.block_working;
  return std::max({in_chunk, in_backward, in_block, gpt.resting + gpt.stream});
}

/// The same matmuls; what differs is how often memory is passed over. Plain: log_softmax reads and writes, the gradient
/// of the targets' entries is written, log_softmax's reads two tensors and writes one, 6 times the logits. In chunks:
/// largest 1, difference 2, exp 2, sum 1, product 2, so 8; and each chunk but the first reads the weight twice, and
/// reads and writes its gradient, once more. In 16 bits both make the same copies besides, and the weight is read in
/// half the bytes. On the CPU, arrays over 32 MiB come from the system each time, which
/// clears them: a write each, for the plain logits, their logarithms and two gradients.
inline Prediction in_chunks(const Counted& baseline) {
  const HeadBytes head(baseline);
  constexpr int64_t kFromTheSystem = 32 << 20;
  const double cleared = (head.chunk > kFromTheSystem ? 1.0 : 0.0) - (head.logits > kFromTheSystem ? 4.0 : 0.0);
  const double more_bytes = (8 - 6 + cleared) * static_cast<double>(head.logits) +
                            (head.sixteen_bits ? 3.0 : 4.0) * static_cast<double>((head.chunks - 1) * head.weight);
  const double more_seconds = more_bytes / baseline.ceiling("cpu_copy_bytes_per_s");
  return {.speed_ratio = speed_with(baseline, more_seconds), .peak_bytes = peak_in_chunks(baseline, head)};
}

}  // namespace tenfold::inline lesson_44
