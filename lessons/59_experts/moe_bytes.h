#pragma once
// What a rank of a GPT with mixtures has, keeps and sends, by formula, in 32 bits. S is one activation of the residual
// stream on this rank, 4 B T D / N bytes.

#include <algorithm>
#include <cstdint>

#include "common/models/gpt.h"
#include "expert_capacity.h"
#include "settings.h"

namespace tenfold::inline lesson_59 {

/// How a mixture is computed: what it computes rows of, and where.
enum class Way { every_expert, loop, sorted, buffers };

struct MoeSizes {
  GptOptions gpt;
  int64_t experts = 8, active = 2;
  Way way = Way::every_expert;
  double capacity_factor = 0;  ///< of Way::buffers
  int64_t ranks = 1;           ///< that divide the batch
  int64_t expert_ranks = 1;    ///< of them, that divide the experts

  int64_t tokens() const { return gpt.batch * gpt.length / ranks; }
  int64_t stream() const { return 4 * tokens() * gpt.width; }
  int64_t pairs() const { return tokens() * active; }
  int64_t capacity() const { return capacity_of(pairs(), tokens(), experts, capacity_factor); }

  /// Rows that this rank's experts compute. Where the router decides: if all experts get equally many.
  int64_t rows() const {
    switch (way) {
      case Way::every_expert:
        return experts * tokens();
      case Way::buffers:
        return experts * capacity();
      default:
        return pairs();
    }
  }
  int64_t row_bytes() const { return 4 * rows() * gpt.width; }

  // --- model states ---

  /// Of one block's up, and as many of its down.
  int64_t weight_bytes() const { return 16 * experts / expert_ranks * gpt.width * gpt.width; }
  /// qkv, projection, two norms, router.
  int64_t dense_block_bytes() const { return 4 * (4 * gpt.width + 8 + experts) * gpt.width; }
  int64_t block_bytes() const { return dense_block_bytes() + 2 * weight_bytes(); }
  int64_t embedding_bytes() const { return 4 * (gpt.vocabulary() + gpt.length) * gpt.width; }
  int64_t head_bytes() const { return 4 * (gpt.vocabulary() + 2) * gpt.width; }
  int64_t dense_bytes() const { return gpt.layers * dense_block_bytes() + embedding_bytes() + head_bytes(); }
  int64_t parameter_bytes() const { return dense_bytes() + gpt.layers * 2 * weight_bytes(); }

  // --- activations ---

  /// What the weighted sum keeps: each pair's result, or each token's of every expert; a loop's index_add the product,
  /// too.
  int64_t summed_bytes() const {
    return way == Way::every_expert ? row_bytes() : (way == Way::loop ? 2 : 1) * active * stream();
  }
  /// Of a mixture: its rows, the inner layer before and after GELU, what is summed; probabilities, choices, weights;
  /// and the orders of rows.
  int64_t mixture_kept_bytes() const {
    const int64_t k = active, number = 4 * tokens();
    const int64_t orders = way == Way::every_expert ? number * experts
                           : way == Way::buffers    ? 3 * number * k
                                                    : 5 * number * k + (expert_ranks > 1 ? 16 * rows() : 0);
    const int64_t input = way == Way::every_expert ? 0 : row_bytes();  // the norm's result, which is counted there
    return input + 8 * row_bytes() + summed_bytes() + number * (experts + 3 * k + 1) + orders;
  }
  /// Of a block: norm 1, q k v, attention, residual sum, norm 2, the result; of each row two means, two deviations and
  /// a number for each head; and its mixture.
  int64_t block_kept_bytes() const { return 8 * stream() + 4 * tokens() * (4 + gpt.heads) + mixture_kept_bytes(); }

  /// At most in a block's backward, above what is kept. At the second layer of the experts: the gradients of its
  /// results and of the inner layer, and of its weight; what is summed is gone. A loop has one expert's rows at a time,
  /// but at its end each expert's gradients of both weights, and one of these once more, stacked.
  int64_t in_block_bytes() const {
    const int64_t small = 8 * tokens() * experts;  // gradients of probabilities
    if (way != Way::loop) return 5 * row_bytes() - summed_bytes() + weight_bytes() + small;
    const int64_t of_one = 5 * row_bytes() / experts + weight_bytes() / experts + stream();
    return small + std::max(of_one, 3 * weight_bytes() + 2 * stream() - mixture_kept_bytes());
  }

  /// The most bytes at a time of the moments of a step, as step_peak_bytes() has them for the GPT. Ranks then average
  /// the gradients of what is not divided, in flat buckets of 25 MiB and what a large parameter has more.
  int64_t peak_bytes() const {
    const int64_t parameters = parameter_bytes(), inputs = 2 * 8 * tokens(), logits = 4 * tokens() * gpt.vocabulary();
    const int64_t kept = block_kept_bytes(), head = head_bytes();
    const int64_t after_blocks = 2 * parameters + inputs + stream() + gpt.layers * kept;
    const int64_t at_loss = after_blocks + stream() + 8 * tokens() + 3 * logits;
    const int64_t at_last_block = after_blocks + head + in_block_bytes();
    const int64_t at_first_block = after_blocks - (gpt.layers - 1) * (kept - block_bytes()) + head + in_block_bytes();
    // At the experts' first layer in the first block: only that block's dense gradients and the embeddings' are
    // missing.
    const int64_t input = way == Way::every_expert ? 0 : row_bytes();
    const int64_t at_first_experts = 3 * parameters - embedding_bytes() - dense_block_bytes() + inputs + 10 * stream() +
                                     4 * tokens() * (4 + gpt.heads) + 5 * row_bytes() + input;
    const int64_t at_first_layer = 3 * parameters - embedding_bytes() + inputs + 7 * stream();
    const int64_t averaged = std::max(dense_bytes(), ranks > expert_ranks ? gpt.layers * 2 * weight_bytes() : 0);
    const int64_t largest = std::max(4 * gpt.vocabulary() * gpt.width, ranks > expert_ranks ? weight_bytes() : 0);
    const int64_t bucket = std::min(averaged, (int64_t{25} << 20) + largest);
    const int64_t at_end = 3 * parameters + inputs + std::max(stream(), ranks > 1 ? bucket : 0);
    return std::max(
        {at_loss, at_last_block, at_first_block, way == Way::loop ? 0 : at_first_experts, at_first_layer, at_end});
  }

  // --- what a rank sends in an update ---

  /// That it gives to one block's all-to-alls. Rows by the router's choice: 8 E bytes of counts; its pairs' rows and,
  /// if all experts get equally many, as many of its experts' results; backward the same rows again. Buffers: all of
  /// them, there and back, forward and backward.
  int64_t all_to_all_bytes() const {
    if (expert_ranks == 1) return 0;
    return 4 * row_bytes() + (way == Way::buffers ? 0 : 8 * experts);
  }
  int64_t all_to_all_calls() const { return expert_ranks == 1 ? 0 : way == Way::buffers ? 4 : 5; }
  /// Gradients: of what every rank has, and of the experts among the ranks that have the same.
  int64_t all_reduce_bytes() const {
    if (ranks == 1) return 0;
    return dense_bytes() + (ranks > expert_ranks ? gpt.layers * 2 * weight_bytes() : 0);
  }
  int64_t sent_bytes() const { return gpt.layers * all_to_all_bytes() + all_reduce_bytes(); }
};

/// By the settings that a trial or a counted step has.
MoeSizes moe_sizes(const auto& from, Way way, int64_t ranks = 1, int64_t expert_ranks = 1) {
  return {.gpt = {.layers = from.get(gpt::kLayers),
                  .width = from.get(gpt::kWidth),
                  .heads = from.get(gpt::kHeads),
                  .length = from.get(gpt::kLength),
                  .batch = from.get(gpt::kBatch),
                  .tokens = encoding_named(from.get(gpt::kTokens))},
          .experts = from.get(kExperts),
          .active = from.get(kActive),
          .way = way,
          .capacity_factor = way == Way::buffers ? from.get(kCapacityFactor) : 0,
          .ranks = ranks,
          .expert_ranks = expert_ranks};
}

}  // namespace tenfold::inline lesson_59
