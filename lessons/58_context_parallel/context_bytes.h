#pragma once
// What a rank of context parallelism keeps, computes and sends, by formula, in 32 bits.
//
// S is one activation of the residual stream of all tokens, 4 B T D bytes; N the ranks that share a sequence. Of all
// activations a rank has 1 / N. In a layer's forward the ring sends keys and values N - 1 times, 2 S / N each; in its
// backward these again and as much of their gradients: 6 (N - 1) / N S, the more, the more ranks there are. Ulysses
// asks for four all-to-alls: 3 S / N (queries, keys, values) and S / N (the result) in forward, and as much in
// backward. Of each (N - 1) / N leaves the rank: 8 (N - 1) / N^2 S, the less, the more ranks there are.
// Gathering sends what the ring does, in 3 collectives instead of 3 (N - 1) messages: all-gathers of 2 S in forward and
// in backward, and a reduce-scatter of 2 S; (N - 1) / N of each leave the rank.

#include <algorithm>
#include <cstdint>

#include "common/models/gpt.h"
#include "context_gpt.h"
#include "sequence_parts.h"

namespace tenfold::inline lesson_58 {

struct ContextBytes {
  Scheme scheme = Scheme::one_process;
  int64_t ranks = 1;
  int64_t layers = 1, width = 64, heads = 4, length = 64, batch = 8, vocabulary = 128;

  int64_t tokens() const { return batch * length / ranks; }      ///< of a rank
  int64_t own_stream() const { return 4 * tokens() * width; }    ///< one activation of a rank's tokens
  int64_t stream() const { return 4 * batch * length * width; }  ///< and of all
  bool in_ring() const { return scheme == Scheme::ring || scheme == Scheme::zigzag; }

  int64_t block_values() const { return (12 * width + 13) * width; }
  int64_t embedding_values() const { return (vocabulary + length) * width; }
  int64_t head_values() const { return (vocabulary + 2) * width; }
  int64_t parameter_values() const { return layers * block_values() + embedding_values() + head_values(); }

  /// What a block keeps for its backward, with its result: norm 1, q k v, attention, residual sum, norm 2, the inner
  /// layer before and after GELU, the result; and of each token two means, two deviations and a number for each head.
  /// Ulysses keeps attention's result twice, as heads and as tokens.
  int64_t block_kept_bytes() const {
    const int64_t activations = scheme == Scheme::ulysses && ranks > 1 ? 17 : 16;
    return activations * own_stream() + 4 * tokens() * (4 + heads);
  }

  struct Asked {
    int64_t calls = 0, bytes = 0;  ///< as counted: a send's tensor, what an all-to-all gives to all, itself among them
  };
  /// Of one layer, in forward and backward.
  Asked layer_sends() const {
    if (!in_ring()) return {};
    return {3 * (ranks - 1), 3 * (ranks - 1) * 2 * own_stream()};
  }
  Asked layer_all_to_alls() const {
    if (scheme != Scheme::ulysses || ranks == 1) return {};
    return {4, 8 * own_stream()};
  }
  Asked layer_all_gathers() const {
    if (scheme != Scheme::gathered || ranks == 1) return {};
    return {2, 2 * 2 * stream()};
  }
  Asked layer_reduce_scatters() const {
    if (scheme != Scheme::gathered || ranks == 1) return {};
    return {1, 2 * stream()};
  }
  /// Of all collectives in which a part stays with the rank.
  Asked layer_collectives() const {
    const Asked exchanged = layer_all_to_alls(), gathered = layer_all_gathers(), reduced = layer_reduce_scatters();
    return {exchanged.calls + gathered.calls + reduced.calls, exchanged.bytes + gathered.bytes + reduced.bytes};
  }
  /// What leaves the rank for a layer.
  int64_t layer_sent_bytes() const { return layer_sends().bytes + layer_collectives().bytes / ranks * (ranks - 1); }
  int64_t gradient_bytes() const { return ranks > 1 ? 4 * parameter_values() : 0; }  ///< all-reduced
  int64_t asked_bytes() const { return layers * (layer_sends().bytes + layer_collectives().bytes) + gradient_bytes(); }

  /// Scores, of one head and one sequence, that a rank computes: half of a triangle of T (T + 1) for all ranks.
  int64_t scores_of(int64_t rank) const {
    if (scheme == Scheme::ulysses) return length * (length + 1) / 2 / ranks;  // of Ulysses: all scores of its heads
    const int64_t own = length / ranks;
    int64_t scores = 0;
    for (int64_t source = 0; source < ranks; ++source) {
      const VisibleBlock seen = visible_block(order_of(scheme), rank, source, own);
      scores += seen.causal ? own * (own + 1) / 2 : seen.queries * seen.keys;
    }
    return scores;
  }
  /// The part of all scores that the rank with the most has: the others wait for it in every layer.
  double most_scores() const {
    int64_t most = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) most = std::max(most, scores_of(rank));
    return 2 * static_cast<double>(most) / static_cast<double>(length * (length + 1));
  }
};

inline ContextBytes context_bytes(const GptOptions& options, Scheme scheme, int64_t ranks) {
  return {.scheme = scheme,
          .ranks = ranks,
          .layers = options.layers,
          .width = options.width,
          .heads = options.heads,
          .length = options.length,
          .batch = options.batch,
          .vocabulary = options.vocabulary()};
}

}  // namespace tenfold::inline lesson_58
