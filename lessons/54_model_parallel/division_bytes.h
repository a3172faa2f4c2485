#pragma once
// What a rank of a divided GPT has, keeps and sends, by formula, in 32 bits.
//
// S is one activation of the residual stream, 4 B T D bytes; N the ranks that share a layer. A block keeps for its
// backward 16 S in one process, (4 + 12 / N) S in tensor parallelism, where both norms, the residual sum and the
// result are whole on every rank, and 16 / N S in sequence parallelism. In a mix of 16 and 32 bits, with dropout and
// attention's scores, V. Korthikanti et al. (MLSys 2023) count 34, 10 + 24 / N and 34 / N bytes for each B T D.

#include <cstdint>

#include "common/models/gpt.h"

namespace tenfold::inline lesson_54 {

enum class Scheme { one_process, tensor, vocabulary, sequence, gathered_again };

struct DividedGpt {
  Scheme scheme = Scheme::one_process;
  int64_t ranks = 1;  ///< that share a layer
  int64_t layers = 1, width = 64, heads = 4, length = 64, batch = 8;
  int64_t vocabulary = 128;

  bool in_sequence() const { return scheme == Scheme::sequence || scheme == Scheme::gathered_again; }
  /// Classes of a rank's embedding and head, with padding.
  int64_t classes() const {
    const bool whole = scheme == Scheme::one_process || scheme == Scheme::tensor;
    return whole ? vocabulary : (vocabulary + ranks - 1) / ranks;
  }
  int64_t tokens() const { return batch * length; }
  int64_t stream() const { return 4 * tokens() * width; }
  /// Of it what a rank has between the layers.
  int64_t own_stream() const { return in_sequence() ? stream() / ranks : stream(); }

  // --- model states ---

  /// Values of a block's parameters on a rank: qkv, projection, up and down are cut, with the biases of qkv and up.
  int64_t block_values() const { return (12 * width + 7) * width / ranks + 6 * width; }
  int64_t embedding_values() const { return (classes() + length) * width; }
  int64_t head_values() const { return (classes() + 2) * width; }
  int64_t parameter_values() const { return layers * block_values() + embedding_values() + head_values(); }
  /// Values that every rank uses for its own tokens alone: norms, the row-parallel layers' biases, positions.
  int64_t replicated_values() const { return layers * 6 * width + 2 * width + length * width; }
  /// Parameters, gradients and momentum.
  int64_t state_bytes() const { return 12 * parameter_values(); }

  // --- activations ---

  /// What a block keeps for its backward, with its result: norm 1, q k v, attention, residual sum, norm 2, the inner
  /// layer before and after GELU, the result; and of each token two means, two deviations and a number for each head.
  int64_t block_kept_bytes() const {
    const int64_t cut = (3 + 1 + 4 + 4) * stream() / ranks;  // what belongs to this rank's heads and inner features
    const int64_t of_norms = (scheme == Scheme::gathered_again ? 2 * own_stream() : 2 * stream());
    const int64_t numbers = 4 * (4 * tokens() / (in_sequence() ? ranks : 1) + tokens() * heads / ranks);
    return cut + of_norms + 2 * own_stream() + numbers;
  }

  // --- what is sent in an update ---

  struct Sent {
    int64_t calls = 0, bytes = 0;  ///< payload
  };
  /// Two of each block's forward and two of its backward; the embedding; the head's backward; the loss.
  Sent all_reduce() const {
    if (ranks == 1) return {};
    switch (scheme) {
      case Scheme::one_process:
        return {};
      case Scheme::tensor:
        return {4 * layers, 4 * layers * stream()};
      case Scheme::vocabulary:
        return {4 * layers + 2 + 3, (4 * layers + 2) * stream() + 3 * 4 * tokens()};
      default:  // with the gradients of what is replicated
        return {3 + 1, 3 * 4 * tokens() + 4 * replicated_values()};
    }
  }
  Sent all_gather() const {
    if (ranks == 1 || !in_sequence()) return {};
    const int64_t again = scheme == Scheme::gathered_again ? 2 * layers + 1 : 0;
    return {4 * layers + 2 + again, (4 * layers + 2 + again) * stream()};
  }
  Sent reduce_scatter() const {
    if (ranks == 1 || !in_sequence()) return {};
    return {4 * layers + 2, (4 * layers + 2) * stream()};
  }
  int64_t payload_bytes() const { return all_reduce().bytes + all_gather().bytes + reduce_scatter().bytes; }
  /// If every collective goes around a ring: an all-reduce is a reduce-scatter and an all-gather.
  int64_t ring_bytes() const {
    return (ranks - 1) * (2 * all_reduce().bytes + all_gather().bytes + reduce_scatter().bytes) / ranks;
  }
};

inline DividedGpt divided_gpt(const GptOptions& options, int64_t vocabulary, int64_t ranks, Scheme scheme) {
  return {.scheme = scheme,
          .ranks = ranks,
          .layers = options.layers,
          .width = options.width,
          .heads = options.heads,
          .length = options.length,
          .batch = options.batch,
          .vocabulary = vocabulary};
}

}  // namespace tenfold::inline lesson_54
