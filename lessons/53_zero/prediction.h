#pragma once
// Peak and bytes sent of each stage, from a counted step of data parallel training on as many ranks.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/gpt_memory.h"
#include "settings.h"
#include "state_bytes.h"
#include "zero.h"

namespace tenfold::inline lesson_53 {

/// Bytes of a rank's step. Units are the embeddings, blocks of one size, and the head with the last norm.
struct RankBytes {
  explicit RankBytes(const Counted& ddp) : ranks(ddp.ranks), micro_batches(ddp.get(kMicroBatches)) {
    const GptOptions options = gpt_options(ddp);
    const UnitSizes units = unit_sizes(options);
    const auto whole = [&](const std::vector<int64_t>& unit) {
      return 4 * ranks * shard_size(flat_values(unit), static_cast<int>(ranks));
    };
    embedding = whole(units.front());
    block = whole(units[1]);
    head = whole(units.back());
    blocks = options.layers;
    frozen = ddp.get(kFrozen);
    value_bytes = in_16_bits(ddp) ? 2 : 4;
    const int64_t rows = options.batch / (weak_scaling(ddp) ? 1 : ranks) * options.length;
    stream = value_bytes * rows / micro_batches * options.width;
    inputs = 2 * 8 * rows + stream;  // ids, targets, and the embeddings' result
    const Region& block_region = ddp.region("block.forward");
    block_kept = block_region.retained_bytes / block_region.calls;
    head_kept = ddp.region("head.forward").largest_retained_bytes;
    head_peak = ddp.region("head.forward").largest_peak_bytes;
    // A CPU casts a gradient of 16 bits to a tensor of its own before it is added to those of 32.
    const int64_t gradient_bytes = value_bytes + (in_16_bits(ddp) && ddp.device.is_cpu() ? 4 : 0);
    block_working = 5 * stream + (frozen ? 0 : gradient_bytes * 4 * options.width * options.width);
    head_weight = gradient_bytes * options.vocabulary() * options.width;
    // Gloo makes a copy of the whole for each all-gather and each reduce-scatter. NCCL sends from where it is.
    copies = ddp.device.is_cpu() && ranks > 1 ? 1 : 0;
  }

  int64_t whole() const { return embedding + blocks * block + head; }
  int64_t trainable() const { return frozen ? embedding + head : whole(); }
  int64_t largest() const { return std::max({embedding, block, head}); }
  int64_t largest_trainable() const { return frozen ? std::max(embedding, head) : largest(); }
  int64_t block_gradient() const { return frozen ? 0 : block; }
  int64_t logits() const { return head_kept - stream; }
  /// Of a unit's whole parameters, in the type that they are gathered in.
  int64_t gathered(int64_t unit) const { return unit * value_bytes / 4; }
  int64_t head_most() const { return std::max(head_peak, head_kept + 2 * logits()); }

  int64_t ranks, micro_batches;
  int64_t embedding, block, head;  ///< a unit's whole parameters, or gradients, filled up to be divided by the ranks
  int64_t blocks;
  bool frozen;
  int64_t value_bytes;  ///< of what the model computes with
  int64_t stream;       ///< one activation of the residual stream, of a micro-batch
  int64_t inputs, block_kept, head_kept, head_peak;
  int64_t block_working;  ///< at the start of a block's backward, as GptBytes has it
  int64_t head_weight;
  int64_t copies;  ///< of a unit that the transport makes
};

/// The most bytes at a time of the moments of a step. What rests: parameters and AdamW's averages. To it come the
/// gradients of units that backward() has done, whole in stage 1, else shards; what forward keeps for the rest; and the
/// unit that is at work: its gradients, and in stage 3 its parameters, whole.
inline int64_t peak_bytes_of(const RankBytes& of, const ZeroOptions& options) {
  const int64_t ranks = of.ranks;
  const bool three = options.stage == 3, kept = three && !options.reshard_after_forward;
  const int64_t divided = options.stage > 1 ? ranks : 1;  // a gradient at rest
  const int64_t averages = 2 * of.trainable() / ranks;
  int64_t rest = averages + (three ? of.whole() / ranks : of.whole());
  const bool blocks_stay = three && options.keep_frozen && of.frozen;
  const int64_t block = blocks_stay ? 0 : of.gathered(of.block);  // what comes and goes of a block's parameters
  if (blocks_stay) rest += of.blocks * of.gathered(of.block);
  // Of earlier micro-batches.
  const int64_t before = of.micro_batches > 1 ? of.trainable() / divided : 0;
  // A unit's parameters while it is at work, and those of units that backward() has not come to.
  const auto at_work = [&](int64_t gathered) { return three ? gathered : 0; };
  const int64_t embedding = of.gathered(of.embedding), head = of.gathered(of.head);
  const auto waiting = [&](int64_t units_left) { return kept ? embedding + units_left * block : 0; };
  // With prefetch the next unit's parameters are there or on their way, and the last unit's gradients are still sent.
  const auto ahead = [&](int64_t units_left) {
    const int64_t next = units_left > 0 ? block : embedding;
    const int64_t sent = of.value_bytes < 4 ? next / ranks : 0;  // the shard in 16 bits
    return three && options.prefetch && !kept ? (1 + of.copies) * next + sent : 0;
  };
  const auto sending = [&](int64_t units_left) {
    const int64_t last = units_left == of.blocks ? of.head : of.block_gradient();
    return options.stage > 1 && options.prefetch ? (1 + of.copies) * last : 0;
  };
  const int64_t after_blocks = rest + before + of.inputs + of.blocks * of.block_kept + waiting(of.blocks);

  // The last block is gathered for its backward while the head's runs.
  int64_t most = after_blocks + at_work(head) + ahead(of.blocks) + of.head_most();
  // The head's weight has its gradient, and that goes to the flat one.
  most = std::max(most,
                  after_blocks + at_work(head) + ahead(of.blocks) + of.stream + of.logits() + of.head_weight + of.head);
  for (int64_t left = of.blocks; left > 0; --left) {  // blocks whose backward is to come, this one included
    const int64_t done = before > 0 ? before : (of.head + (of.blocks - left) * of.block_gradient()) / divided;
    const int64_t begin = rest + done + of.inputs + left * of.block_kept + of.block_working + waiting(left - 1) +
                          at_work(block) + of.block_gradient();
    const int64_t gather = rest + done + of.inputs + left * of.block_kept + of.stream + waiting(left - 1) +
                           (kept ? 1 : 1 + of.copies) * at_work(block);
    const int64_t end = rest + done + of.inputs + (left - 1) * of.block_kept + 2 * of.stream + waiting(left - 1) +
                        of.block_gradient() * (options.stage > 1 ? 1 + of.copies : 1) + of.block_gradient() / ranks;
    most = std::max({most, gather, begin + ahead(left - 1) + sending(left), end + ahead(left - 1)});
  }
  const int64_t all_gradients = of.trainable() / divided;
  // At the end of backward(): the embeddings' gradient on its way to the flat one.
  most = std::max(most, rest + all_gradients - (options.stage > 1 ? of.embedding / divided : 0) + of.inputs +
                            at_work(embedding) + of.embedding * (options.stage > 1 ? 2 : 1) + sending(0));
  // Stage 1 reduces now, and 1 and 2 gather what was updated; the update has two temporaries of a shard.
  if (options.stage == 1) most = std::max(most, rest + all_gradients + of.copies * of.largest_trainable());
  if (!three) most = std::max(most, rest + all_gradients + of.copies * of.largest_trainable());
  return std::max(most, rest + all_gradients + 2 * of.largest_trainable() / ranks);
}

/// What a rank asks of all collectives in an update: each of the whole's bytes. Stage 1 reduces once and gathers once;
/// stage 2 reduces each micro-batch; stage 3 reduces each micro-batch and gathers twice in it, but the head, which is
/// the last unit, and parameters that stay, once.
inline int64_t sent_bytes_of(const RankBytes& of, const ZeroOptions& options, bool clips) {
  const int64_t trainable = of.trainable(), frozen = options.keep_frozen ? 0 : of.whole() - trainable;
  const int64_t again = options.reshard_after_forward ? trainable + frozen - of.head : 0;
  int64_t sent = clips ? 4 : 0;  // the squares of the norms
  if (options.stage == 1) return sent + 2 * trainable;
  if (options.stage == 2) return sent + (of.micro_batches + 1) * trainable;
  return sent + of.micro_batches * (of.gathered(trainable + frozen + again) + trainable);
}

inline Prediction predict_zero(const Counted& ddp, const ZeroOptions& options) {
  const RankBytes of(ddp);
  Prediction prediction{.peak_bytes = peak_bytes_of(of, options)};
  if (ddp.ranks > 1) prediction.sent_bytes = sent_bytes_of(of, options, ddp.get(kMaxNorm) > 0);
  return prediction;
}

inline Prediction predict_stage_1(const Counted& ddp) { return predict_zero(ddp, {.stage = 1}); }
inline Prediction predict_stage_2(const Counted& ddp) { return predict_zero(ddp, {.stage = 2}); }
inline Prediction predict_stage_3(const Counted& ddp) { return predict_zero(ddp, {.stage = 3}); }
inline Prediction predict_kept(const Counted& ddp) {
  return predict_zero(ddp, {.stage = 3, .reshard_after_forward = false});
}
inline Prediction predict_waiting(const Counted& ddp) { return predict_zero(ddp, {.stage = 3, .prefetch = false}); }
inline Prediction predict_16_bits(const Counted& ddp) {
  return predict_zero(ddp, {.stage = 3, .gathered_as = torch::kBFloat16});
}
inline Prediction predict_frozen_kept(const Counted& ddp) {
  return predict_zero(ddp, {.stage = 3, .keep_frozen = true});
}

/// The optimizer's copies of the shards and of their gradients come to what stage 1 has.
inline Prediction predict_copied_shards(const Counted& ddp) {
  Prediction prediction = predict_stage_1(ddp);
  *prediction.peak_bytes += 2 * RankBytes(ddp).trainable() / ddp.ranks;
  return prediction;
}

}  // namespace tenfold::inline lesson_53
