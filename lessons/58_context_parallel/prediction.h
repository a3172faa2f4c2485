#pragma once
// What context parallelism should do to one process's step.

#include <algorithm>
#include <cstdint>

#include "common/harness/lesson.h"
#include "common/models/gpt_memory.h"
#include "context_bytes.h"
#include "settings.h"

namespace tenfold::inline lesson_58 {

inline ContextBytes context_bytes(const Counted& one_process, Scheme scheme) {
  return context_bytes(gpt_options(one_process), scheme, one_process.ranks);
}

/// Most bytes of attention's backward besides what forward kept, and the gradients of its result and of the residual
/// sum. In the ring, in activations of a rank's tokens: the block and the next one, the sums of gradients that stay,
/// come and go, and a part's gradients (2 each), the queries' gradient (1). Gathered: its own block (2), those of all
/// and the sums of their gradients (2 N each), a part's gradients with the queries' (4); Gloo copies what it gathers (2
/// N).
inline int64_t attention_working_bytes(const ContextBytes& of, bool gloo) {
  const int64_t own = of.own_stream();
  if (of.ranks == 1) return 9 * own;
  if (of.in_ring()) return (of.ranks == 2 ? 10 : of.ranks == 3 ? 12 : 14) * own;
  if (of.scheme == Scheme::gathered) return ((gloo ? 6 : 4) * of.ranks + 6) * own;
  return 9 * own;  // gradients of q, k and v, stacked, packed and received
}

/// The most bytes at a time of the moments of a step: the loss; in the last and in the first block's backward the MLP
/// and attention; the average of the gradients, in one flat tensor.
inline int64_t peak_bytes_of(const ContextBytes& of, bool gloo) {
  const int64_t own = of.own_stream(), tokens = of.tokens(), parameters = 4 * of.parameter_values();
  const int64_t inputs = 2 * 8 * tokens + 8 * of.length / of.ranks;  // ids, targets, places
  const int64_t logits = 4 * tokens * of.vocabulary, head = 4 * of.head_values(), block = 4 * of.block_values();
  const int64_t after_blocks = 2 * parameters + inputs + own + of.layers * of.block_kept_bytes();
  const int64_t at_loss = after_blocks + own + 8 * tokens + 3 * logits;
  const int64_t in_mlp = 4 * own + 4 * 4 * of.width * of.width;
  // The MLP's activations are gone, with the residual sum and the result; gradients of 9 of the block's 12 D^2 are
  // there.
  const int64_t in_attention = attention_working_bytes(of, gloo) + (2 - 11) * own + 4 * 9 * of.width * of.width;
  const int64_t in_block = std::max(in_mlp, in_attention);
  const int64_t at_last_block = after_blocks + head + in_block;
  const int64_t at_first_block = after_blocks - (of.layers - 1) * (of.block_kept_bytes() - block) + head + in_block;
  const int64_t at_end = (of.ranks > 1 ? 4 : 3) * parameters + inputs + (of.ranks > 1 ? 0 : own);
  return std::max({at_loss, at_last_block, at_first_block, at_end});
}

/// Seconds of a rank's step: its tokens' part of what one process computes, of attention that of the rank with the most
/// scores, and each message at the probed latency and rate of an all-reduce between two ranks, which sends as much as a
/// rank's message and twice as much as an all-to-all. Nothing overlaps: on a CPU ranks and messages share the cores.
inline double step_seconds_of(const Counted& one_process, const ContextBytes& of) {
  const double step = one_process.step_seconds;
  const double data = one_process.share("data") * step, optimizer = one_process.share("optimizer") * step;
  const double attention = one_process.share("attention") * step;
  const double forward = (one_process.share("block.forward") + one_process.share("head.forward")) * step;
  const double scale = (step - data - optimizer) / forward;  // with the backward
  const double compute = scale * ((forward - attention) / static_cast<double>(of.ranks) + attention * of.most_scores());
  const auto layers = static_cast<double>(of.layers);
  const double calls = layers * static_cast<double>(of.layer_sends().calls + of.layer_collectives().calls) + 1;
  const double bytes = layers * static_cast<double>(of.layer_sent_bytes()) + static_cast<double>(of.gradient_bytes());
  const double sending =
      calls * one_process.ceiling("cpu_all_reduce_seconds") + bytes / one_process.ceiling("cpu_all_reduce_bytes_per_s");
  return data + compute + sending + optimizer;
}

inline Prediction predict_scheme(const Counted& one_process, Scheme scheme) {
  const ContextBytes of = context_bytes(one_process, scheme);
  Prediction prediction{.peak_bytes = peak_bytes_of(of, one_process.device.is_cpu())};
  if (one_process.ranks > 1) prediction.sent_bytes = of.asked_bytes();
  if (one_process.ranks == 2) prediction.speed_ratio = one_process.step_seconds / step_seconds_of(one_process, of);
  return prediction;
}

inline Prediction predict_ring(const Counted& one_process) { return predict_scheme(one_process, Scheme::ring); }
inline Prediction predict_zigzag(const Counted& one_process) { return predict_scheme(one_process, Scheme::zigzag); }
inline Prediction predict_gathered(const Counted& one_process) { return predict_scheme(one_process, Scheme::gathered); }
inline Prediction predict_ulysses(const Counted& one_process) { return predict_scheme(one_process, Scheme::ulysses); }

}  // namespace tenfold::inline lesson_58
