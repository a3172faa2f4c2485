#pragma once
// What dividing a GPT's layers should do to one process's step.

#include <algorithm>
#include <cstdint>

#include "common/harness/lesson.h"
#include "common/models/gpt_memory.h"
#include "division_bytes.h"
#include "settings.h"

namespace tenfold::inline lesson_54 {

/// A rank's part, by the case's settings. Of several ranks along "dp" each has its rows of the batch.
inline DividedGpt divided_gpt(const Counted& one_process, Scheme scheme) {
  GptOptions options = gpt_options(one_process);
  options.batch /= one_process.get(kDataRanks);
  return divided_gpt(options, vocabulary_of(options, one_process.get(kVocabulary)),
                     one_process.ranks / one_process.get(kDataRanks), scheme);
}

/// The most bytes at a time of the moments of a step: the loss; the head's gradients; in the last and in the first
/// block's backward the second layer of the MLP, and the first one; the first block's first layer; the embedding's
/// gradient. What rests is parameters and momentum; to it come the gradients so far and what the blocks that are left
/// keep.
inline int64_t peak_bytes_of(const DividedGpt& of, int64_t data_ranks, bool gloo) {
  const int64_t ranks = of.ranks, tokens = of.tokens(), stream = of.stream(), own = of.own_stream();
  const int64_t parameters = 4 * of.parameter_values(), block = 4 * of.block_values();
  const int64_t embedding = 4 * of.embedding_values(), head = 4 * of.head_values();
  const bool divided_vocabulary = of.scheme != Scheme::tensor;
  // Gloo copies what it gathers and what it reduces and scatters. NCCL sends from where it is.
  const int64_t copy = gloo && of.in_sequence() && ranks > 1 ? stream : 0;
  // Ids and targets, and what the embedding's gradient needs: positions, and this rank's rows with a mask.
  const int64_t inputs = 2 * 8 * tokens * (gloo ? data_ranks : 1) + 8 * tokens + (divided_vocabulary ? 9 * tokens : 0);
  const int64_t logits = 4 * tokens * of.classes();
  const int64_t after_blocks = 2 * parameters + inputs + own + of.layers * of.block_kept_bytes();

  const int64_t norm = (of.scheme == Scheme::gathered_again ? own : stream) + 8 * tokens * own / stream;
  // In one process the logarithms and two gradients, else the probabilities and their gradient.
  const int64_t at_loss = after_blocks + norm + (divided_vocabulary ? 2 : 3) * logits;

  const int64_t weight = 4 * 4 * of.width * of.width / ranks;  // of one of the MLP's layers
  // A sequence-parallel layer gathers its result's gradient, and scatters that of its input, with which the gathered
  // input and the weight's gradient are alive.
  const int64_t gathered = of.in_sequence() ? stream + copy : 0;
  const int64_t second = gathered + 4 * stream / ranks + weight;
  const int64_t scattered = of.in_sequence() && ranks > 1 ? own + copy : 0;
  const int64_t again = of.scheme == Scheme::gathered_again && ranks > 1 ? stream : 0;
  const int64_t input_gradient = stream + scattered + again;
  const int64_t first = input_gradient - 4 * stream / ranks + 2 * weight;
  const int64_t in_block = std::max(second, first);
  const int64_t at_head = after_blocks + norm + logits + head + (divided_vocabulary ? input_gradient : stream);
  const int64_t at_last_block = after_blocks + head + in_block;
  const int64_t at_first_block = after_blocks - (of.layers - 1) * (of.block_kept_bytes() - block) + head + in_block;
  const int64_t norm_1 = of.scheme == Scheme::gathered_again ? own : stream;
  const int64_t at_first_layer =
      3 * parameters - embedding + inputs + 2 * own + norm_1 + 3 * stream / ranks + input_gradient;
  const int64_t at_embedding = 3 * parameters + inputs + own + (divided_vocabulary ? stream + gathered : 0);
  const int64_t at_average = data_ranks > 1 ? 4 * parameters + inputs : 0;  // gradients in one flat tensor
  return std::max({at_loss, at_head, at_last_block, at_first_block, at_first_layer, at_embedding, at_average});
}

/// Seconds of a rank's step: its part of what one process computes, and each collective at the probed latency and rate
/// of an all-reduce between two ranks; an all-gather or a reduce-scatter sends half as much.
inline double step_seconds_of(const Counted& one_process, const DividedGpt& of) {
  const double step = one_process.step_seconds;
  const double data = one_process.share("data") * step, optimizer = one_process.share("optimizer") * step;
  const double forward_blocks = one_process.share("block.forward") * step;
  const double forward_head = one_process.share("head.forward") * step;
  const double scale = (step - data - optimizer) / (forward_blocks + forward_head);  // with the backward
  const auto data_ranks = static_cast<double>(one_process.get(kDataRanks)), ranks = static_cast<double>(of.ranks);
  const double head_ranks = of.scheme == Scheme::tensor ? 1 : ranks;
  const double compute = scale * (forward_blocks / ranks + forward_head / head_ranks) / data_ranks;
  const auto calls = static_cast<double>(of.all_reduce().calls + of.all_gather().calls + of.reduce_scatter().calls);
  const auto bytes = static_cast<double>(of.all_reduce().bytes) +
                     (static_cast<double>(of.all_gather().bytes) + static_cast<double>(of.reduce_scatter().bytes)) / 2;
  const double sending =
      calls * one_process.ceiling("cpu_all_reduce_seconds") + bytes / one_process.ceiling("cpu_all_reduce_bytes_per_s");
  const double updated = 4 * static_cast<double>(of.parameter_values());
  return data + compute + sending + optimizer * updated / static_cast<double>(one_process.parameter_bytes);
}

inline Prediction predict_scheme(const Counted& one_process, Scheme scheme) {
  const DividedGpt of = divided_gpt(one_process, scheme);
  const int64_t data_ranks = one_process.get(kDataRanks);
  Prediction prediction{.peak_bytes = peak_bytes_of(of, data_ranks, one_process.device.is_cpu())};
  if (one_process.ranks > 1)
    prediction.sent_bytes = of.payload_bytes() + (data_ranks > 1 ? 4 * of.parameter_values() : 0) +
                            (one_process.get(kMaxNorm) > 0 ? 4 : 0);  // the square of the gradients' norm
  if (one_process.ranks == 2) prediction.speed_ratio = one_process.step_seconds / step_seconds_of(one_process, of);
  return prediction;
}

inline Prediction predict_tensor_parallel(const Counted& one_process) {
  return predict_scheme(one_process, Scheme::tensor);
}
inline Prediction predict_vocabulary_parallel(const Counted& one_process) {
  return predict_scheme(one_process, Scheme::vocabulary);
}
inline Prediction predict_sequence_parallel(const Counted& one_process) {
  return predict_scheme(one_process, Scheme::sequence);
}
inline Prediction predict_gathered_again(const Counted& one_process) {
  return predict_scheme(one_process, Scheme::gathered_again);
}

}  // namespace tenfold::inline lesson_54
