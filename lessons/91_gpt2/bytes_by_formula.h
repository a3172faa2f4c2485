#pragma once
// The bytes of a training step's highest moment and its FLOP, from GPT-2's sizes alone.

#include <algorithm>
#include <cstdint>

#include "settings.h"
#include "techniques.h"

namespace tenfold::inline lesson_91 {

struct StepSizes {
  Gpt2Options model;  ///< without padding
  int64_t batch = 1, pad_to = 64, micro_batches = 1;
};

inline int64_t parameters_of(const Gpt2Options& model) {
  const int64_t width = model.width, block = (12 * width + 13) * width;
  return (model.padded_vocabulary() + model.length + 2) * width + model.layers * block;
}

/// FLOP of a trained token: 6 N + 12 L D T. Each parameter of a matmul takes a multiplication and an addition forward
/// and twice that backward; N counts the embedding once, as the head, and neither positions, norms nor biases. Scores
/// and their product with the values take 2 x 2 D T forward in each layer, and twice that backward. All of the T x T
/// pairs count, as the usual formula has it, although half of them are masked.
/// Source: Chowdhery et al., PaLM, 2022, appendix B.
inline double flops_per_token(const Gpt2Options& model) {
  const auto width = static_cast<double>(model.width), layers = static_cast<double>(model.layers);
  const double matmul_parameters = layers * 12 * width * width + static_cast<double>(model.padded_vocabulary()) * width;
  return 6 * matmul_parameters + 12 * layers * width * static_cast<double>(model.length);
}

/// Most bytes alive at a time in a step.
inline int64_t step_peak_bytes(StepSizes sizes, const Techniques& techniques) {
  Gpt2Options& model = sizes.model;
  if (techniques.padded_vocabulary) model.pad_vocabulary_to = sizes.pad_to;
  // What goes through the model at a time.
  const int64_t batch = techniques.accumulation ? sizes.batch / sizes.micro_batches : sizes.batch;
  const int64_t rows = batch * model.length, width = model.width, vocabulary = model.padded_vocabulary();
  const int64_t parameters = 4 * parameters_of(model), head = 4 * vocabulary * width;
  const int64_t stream = 4 * rows * width, logits = 4 * rows * vocabulary;
  // Two averages; the loop's update of the largest tensor needs two temporaries of its size.
  const int64_t states = 3 * parameters, at_update = states + parameters + (techniques.fused_adamw ? 0 : 2 * head);
  const int64_t inputs = 2 * 8 * sizes.batch * model.length;
  // From the second micro-batch on, the sum of the gradients so far is there all the time.
  const int64_t sum = techniques.accumulation && sizes.micro_batches > 1 ? parameters : 0;
  // A block keeps, in streams: two norms, q, k and v, what attention and its residual sum give, the inner layer before
  // and after GELU at four each, and its result; of each row two means and two deviations; and of attention the softmax
  // of all pairs and the mask, or a number for each row and head.
  const int64_t pairs = batch * model.heads * model.length * model.length;
  const int64_t of_pairs = techniques.fused_attention ? 4 * rows * model.heads
                                                      : pairs * (techniques.bf16 ? 2 : 4) + model.length * model.length;
  const int64_t of_rows = 4 * rows * 4 + of_pairs;
  // In 16 bits the two residual sums stay in 32, and a copy of the weights joins.
  const int64_t kept =
      of_rows + (techniques.bf16 ? 2 * stream + 14 * stream / 2 + 2 * 12 * width * width : 16 * stream);
  // Checkpointing keeps a block's result alone; the block that backward() is in is there as a whole.
  const int64_t of_blocks = model.layers * (techniques.checkpointing ? stream : kept);
  const int64_t again = techniques.checkpointing ? kept : 0;
  const int64_t after_blocks = states + sum + inputs + stream + of_blocks;
  // The loss keeps the logarithms; its backward makes two gradients of their size. All of it in 32 bits.
  const int64_t head_input = techniques.bf16 ? stream / 2 : stream, head_copy = techniques.bf16 ? head / 2 : 0;
  const int64_t at_loss = after_blocks + head_input + head_copy + 8 * rows + 3 * logits;
  // In the last block's backward the head's gradient is there, and four streams' worth of gradients twice.
  const int64_t at_last_block = after_blocks + again + head + 4 * stream + 4 * 4 * width * width;
  // At the end the embedding's own gradient joins that of the head; with a sum, both are besides it.
  const int64_t at_end = states + parameters + (sum > 0 ? 2 : 1) * head + inputs + stream;
  return std::max({at_loss, at_last_block, at_end, at_update});
}

}  // namespace tenfold::inline lesson_91
