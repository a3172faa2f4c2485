#pragma once
// The bytes of a step's highest moment with any stack of levers, kind by kind, from the model's sizes alone.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

// Before lesson 33's headers: see there.
#include "settings.h"

#include "common/models/gpt.h"
#include "lessons/03_memory_anatomy/by_formula.h"
#include "lessons/33_optimizer_memory/state_bytes.h"
#include "lessons/44_cross_entropy/chunked_linear_cross_entropy.h"
#include "levers.h"

namespace tenfold::inline lesson_92 {

/// What a stack of levers trains with, besides the model.
struct StepSizes {
  GptOptions model;
  int64_t micro_batches = 1;    ///< with accumulation
  int64_t chunk_rows = 0;       ///< of the loss, 0: the default
  int64_t chunk_values = 0;     ///< of 8-bit AdamW
  bool host_is_device = false;  ///< a CPU: what leaves for the host is in the same memory again
};

class StepBytes {
 public:
  StepBytes(const StepSizes& sizes, const Levers& levers) : sizes_(sizes), levers_(levers) {
    const GptOptions& model = sizes.model;
    const int64_t width = model.width, vocabulary = model.vocabulary();
    parts_ = levers.micro_batches ? sizes.micro_batches : 1;
    const int64_t rows = model.batch / parts_ * model.length;  // of a micro-batch
    stream_ = 4 * rows * width;
    of_rows_ = 4 * rows;
    logits_ = 4 * rows * vocabulary;
    head_ = 4 * vocabulary * width;
    square_ = 4 * width * width;
    block_gradients_ = block_parameter_bytes(width);
    parameters_ = parameter_bytes(model);
    shapes_ = gpt_shapes(model);
    const int64_t chunk = sizes.chunk_rows > 0 ? sizes.chunk_rows : default_chunk_rows(rows, width, vocabulary);
    chunk_ = 4 * std::min(rows, chunk) * vocabulary;
    // Of a block's sixteen streams the residual sums after attention and after the MLP stay in 32 bits; a copy of the
    // weights in 16 bits joins the rest.
    kept_ = of_rows_ * (4 + model.heads) +
            (levers.sixteen_bits ? 2 * stream_ + 14 * stream_ / 2 + block_gradients_ / 2 : 16 * stream_);
  }

  /// Averages, wherever they are that counts here.
  int64_t state() const {
    if (levers_.averages_on_host)
      return sizes_.host_is_device ? 4 * parameters_ : 0;  // parameters, gradients, averages
    return levers_.eight_bit_adamw ? eight_bit_bytes(shapes_) : adamw_bytes(shapes_);
  }

  /// The highest of the moments below.
  MemoryMoment peak() const {
    std::vector<MemoryMoment> all = {at_the_loss(),       in_a_block(sizes_.model.layers - 1),
                                     in_a_block(0),       at_the_first_layer(),
                                     at_the_embeddings(), in_the_update()};
    if (!levers_.chunked_loss) all.push_back(at_the_head());
    if (levers_.chunked_loss) all.push_back(in_a_chunk());
    return *std::ranges::max_element(all, {}, &MemoryMoment::total);
  }

 private:
  /// What is there at any time. With accumulation the gradients are, from the second micro-batch on.
  MemoryMoment moment(Pass pass, int64_t gradients, int64_t activations, int64_t temporary) const {
    ByFormula moment;
    moment.add(MemoryKind::parameters, parameters_)
        .add(MemoryKind::optimizer_state, state())
        .add(MemoryKind::inputs, 2 * 8 * sizes_.model.batch * sizes_.model.length)
        .add(MemoryKind::gradients, parts_ > 1 ? parameters_ : gradients)
        .add(MemoryKind::activations, activations)
        .add(MemoryKind::temporary, temporary);
    MemoryMoment all = moment.moment();
    all.pass = pass;
    return all;
  }

  /// The embeddings' sum and what so many blocks keep: all of their activations, or only their results.
  int64_t kept_by(int64_t blocks) const { return stream_ + blocks * (levers_.checkpointing ? stream_ : kept_); }
  int64_t kept_by_all() const { return kept_by(sizes_.model.layers); }
  /// Numbers that are in 16 bits under autocast.
  int64_t narrow(int64_t bytes) const { return levers_.sixteen_bits ? bytes / 2 : bytes; }
  /// What autocast makes of a weight besides.
  int64_t copy_of(int64_t weight) const { return levers_.sixteen_bits ? weight / 2 : 0; }
  /// A gradient that is new: it stays, or it is added to the one that is there.
  std::pair<int64_t, int64_t> fresh(int64_t bytes) const {
    return parts_ > 1 ? std::pair{int64_t{0}, bytes} : std::pair{bytes, int64_t{0}};
  }

  /// In the loss's backward: the logarithms of the probabilities are kept, in 32 bits, and two arrays of their size are
  /// made. In chunks forward has kept the gradients of hidden states and weight, and both are multiplied by the loss's
  /// own.
  MemoryMoment at_the_loss() const {
    const int64_t norm = 2 * of_rows_;
    if (!levers_.chunked_loss)
      return moment(Pass::backward, 0, kept_by_all() + narrow(stream_) + copy_of(head_) + norm + logits_, 2 * logits_);
    const int64_t gradients = narrow(stream_ + head_);
    return moment(Pass::backward, 0, kept_by_all() + norm + gradients, gradients);
  }

  /// A chunk's logits become its gradient, which both products take. Under autocast: the norm's result and its copy,
  /// the weight's copy, and the chunk once more in 16 bits; or, behind the last chunk, the weight's gradient in 16
  /// bits.
  MemoryMoment in_a_chunk() const {
    const int64_t norm = 2 * of_rows_;
    if (!levers_.sixteen_bits)
      return moment(Pass::forward, 0, kept_by_all() + norm + stream_ + head_, stream_ + chunk_);
    return moment(Pass::forward, 0, kept_by_all() + norm + stream_ / 2,
                  stream_ + stream_ / 2 + head_ / 2 + head_ + std::max(chunk_ + chunk_ / 2, head_ / 2));
  }

  /// The head's backward makes two gradients from that of the logits. Under autocast all of it is in 16 bits, until the
  /// weight's gradient is widened.
  MemoryMoment at_the_head() const {
    const auto [gradient, temporary] = fresh(head_);
    const int64_t norm = 2 * of_rows_;
    if (!levers_.sixteen_bits)
      return moment(Pass::backward, gradient, kept_by_all() + stream_ + norm, logits_ + stream_ + temporary);
    const int64_t at_product = stream_ / 2 + head_ / 2 + logits_ / 2 + stream_ / 2 + head_ / 2;
    const int64_t at_cast = stream_ / 2 + head_ / 2 + head_;
    return moment(Pass::backward, 0, kept_by_all() + norm, std::max(at_product, at_cast));
  }

  /// In the backward of block i, at its last linear layer: gradients of its result, of its input (4 D) and of its
  /// weight. The result itself is gone, unless the block has just been recomputed.
  MemoryMoment in_a_block(int64_t i) const {
    const int64_t later = head_ + 2 * 4 * sizes_.model.width + (sizes_.model.layers - 1 - i) * block_gradients_;
    const int64_t kept = levers_.checkpointing ? kept_by(i) : kept_by(i + 1) - stream_;
    const int64_t recomputed = levers_.checkpointing ? kept_ : 0;
    const auto [gradient, temporary] = fresh(4 * square_);
    if (!levers_.sixteen_bits)
      return moment(Pass::backward, later + gradient, kept, recomputed + 5 * stream_ + temporary);
    // The result's gradient in both types and the input's in 16 bits, with the weight's in 16 bits; or, with the
    // weight's in both, the layer's input and its weight's copy are gone.
    const int64_t at_product = 3 * stream_ + stream_ / 2 + 4 * square_ / 2;
    const int64_t at_cast = stream_ + 4 * square_;
    return moment(Pass::backward, later, kept, recomputed + std::max(at_product, at_cast));
  }

  /// In the first block's first linear layer: its norm's input and result, gradients of queries, keys and values, of
  /// the norm's result and of the residual sum. Under autocast only the input and the last are in 32 bits, until the
  /// weight's gradient is widened.
  MemoryMoment at_the_first_layer() const {
    const int64_t embeddings = head_ + 4 * sizes_.model.length * sizes_.model.width;
    const int64_t at_product = 2 * stream_ + narrow(5 * stream_);
    const int64_t at_cast = levers_.sixteen_bits ? 2 * stream_ + stream_ / 2 + 3 * square_ / 2 : 0;
    const int64_t temporary = fresh(3 * square_).second;
    return moment(Pass::backward, parameters_ - embeddings, 0, std::max(at_product, at_cast) + temporary);
  }

  /// The gradient that arrives at the embeddings, and the one of all tokens, which is added.
  MemoryMoment at_the_embeddings() const {
    const int64_t temporary = fresh(head_).second;
    return moment(Pass::backward, parameters_, 0, stream_ + temporary);
  }

  /// The denominators of one tensor; of a chunk in 8 bits the two averages besides.
  MemoryMoment in_the_update() const {
    int64_t values = 0;
    for (const Shape& shape : shapes_) values = std::max(values, values_of(shape));
    if (levers_.eight_bit_adamw) values = std::min(values, std::max(kBlock, sizes_.chunk_values / kBlock * kBlock));
    const int64_t working = levers_.averages_on_host ? 0 : (levers_.eight_bit_adamw ? 3 : 1) * 4 * values;
    return moment(Pass::update, parameters_, 0, working);
  }

  StepSizes sizes_;
  Levers levers_;
  Shapes shapes_;
  int64_t parts_ = 1;    // micro-batches of a batch
  int64_t stream_ = 0;   // (b, T, D)
  int64_t of_rows_ = 0;  // a number for each token
  int64_t logits_ = 0, chunk_ = 0;
  int64_t head_ = 0;    // (V, D), as large as the tokens' embedding
  int64_t square_ = 0;  // (D, D)
  int64_t kept_ = 0;    // by a block
  int64_t block_gradients_ = 0, parameters_ = 0;
};

/// From a Trial or a Counted.
template <class Source>
StepSizes step_sizes(const Source& source) {
  return {.model = {.layers = source.get(gpt::kLayers),
                    .width = source.get(gpt::kWidth),
                    .heads = source.get(gpt::kHeads),
                    .length = source.get(gpt::kLength),
                    .batch = source.get(gpt::kBatch),
                    .tokens = encoding_named(source.get(gpt::kTokens))},
          .micro_batches = source.get(kMicroBatches),
          .chunk_rows = source.get(kChunkRows),
          .chunk_values = source.get(lesson_33::kChunk),
          .host_is_device = source.device.is_cpu()};
}

}  // namespace tenfold::inline lesson_92
