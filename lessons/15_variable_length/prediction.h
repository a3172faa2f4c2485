#pragma once
// What a step of another layout should cost, from a counted step that is padded to its batch.

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/gpt_memory.h"
#include "speech_training.h"
#include "step_work.h"
#include "varlen_attention.h"

namespace tenfold::inline lesson_15 {

/// Texts with the lengths of every step, and the plan's settings, as the baseline has them.
inline std::vector<TextIds> texts_of_step(const Counted& baseline) {
  return SpeechBatches(speech_settings(baseline), 0).next();
}
inline PlanSettings plan_settings(const Counted& baseline) {
  return {SpeechBatches(speech_settings(baseline), 0).longest_of_all(), baseline.get(kBuckets)};
}

inline double layers_of(const Counted& baseline) { return static_cast<double>(baseline.get(gpt::kLayers)); }
inline double width_of(const Counted& baseline) { return static_cast<double>(baseline.get(gpt::kWidth)); }

/// attention_of_each: six operators for each text, five that make views or heads of them, and the attention. Its
/// results are kept, and so is the row that they are copied to.
inline StepWork work_of_each(const Counted& baseline) {
  const std::vector<TextIds> texts = texts_of_step(baseline);
  StepWork work = packed_work(texts);
  work.operators = 6 * static_cast<double>(texts.size()) * layers_of(baseline);
  work.kept_bytes = work.rows * width_of(baseline) * 4 * layers_of(baseline);
  return work;
}

/// attention_padded: what attention keeps (q, k, v, its result, and a number for each head) has padding; its result is
/// also kept as packed.
inline StepWork work_of_padded_attention(const Counted& baseline) {
  StepWork work = packed_work(texts_of_step(baseline));
  const StepWork padded = padded_work(texts_of_step(baseline), pad_to_batch, {});
  const double width = width_of(baseline);
  const auto heads = static_cast<double>(baseline.get(gpt::kHeads));
  work.pairs = padded.pairs;
  work.attention_rows = work.workspace_rows = padded.rows;
  work.kept_bytes = ((padded.rows - work.rows) * (4 * width + heads) + work.rows * width) * 4 * layers_of(baseline);
  return work;
}

/// attention_masked: all rows see all rows, and the mask is kept.
inline StepWork work_of_one_mask(const Counted& baseline) {
  StepWork work = packed_work(texts_of_step(baseline));
  work.pairs = work.rows * work.rows;
  const auto total = static_cast<int64_t>(work.rows);
  work.kept_bytes = 4 * work.rows * static_cast<double>(mask_stride(total, baseline.device));
  return work;
}

/// attention_in_one_kernel: rows and pairs of the texts, and nothing else but the workspace of its backward pass, which
/// is as if they were padded.
inline StepWork work_of_one_kernel(const Counted& baseline) {
  StepWork work = packed_work(texts_of_step(baseline));
  work.attention_rows = work.rows;
  work.workspace_rows = padded_work(texts_of_step(baseline), pad_to_batch, {}).rows;
  return work;
}

/// What is alive in the backward pass of the last block's attention besides what forward has kept: on CUDA the gradient
/// of its result, those of queries, keys and values, and a workspace, in which the features of a head are rounded up to
/// 64; the gradients of the block's other weights and of the residual stream. Of what the block kept, 11 of 16 streams
/// have been freed by then.
inline double in_attention(const Counted& baseline, const StepWork& work) {
  const double width = width_of(baseline), row = width * 4;
  const auto heads = static_cast<double>(baseline.get(gpt::kHeads));
  const double workspace = work.workspace_rows * 4 * heads * 64 * std::ceil(width / heads / 64);
  return 4 * work.attention_rows * row + workspace + 9 * width * row - 10 * work.rows * row;
}

/// Peak bytes: the highest of three moments, on CUDA of four. Parameters and optimizer state are always live; so are,
/// with several micro-batches, the gradients of those before. What rows keep and what the head's loss needs shrink or
/// grow with them. The last block's backward comes with its working memory (see lesson 31) on top of the head's
/// gradients; at the end all gradients are live, and the one that arrives at the embeddings.
inline int64_t peak_of_step(const Counted& baseline, const StepWork& before, const StepWork& work) {
  const GptBytes gpt(baseline);
  const double width = width_of(baseline);
  const double row = width * 4;  // D floats
  const double stream = before.rows * row;
  const double scale = work.largest_piece / before.rows;
  const auto head_kept = static_cast<double>(gpt.head_kept);
  const auto blocks_kept = static_cast<double>(baseline.region("block.forward").retained_bytes);
  const auto states = static_cast<double>(work.pieces > 1 ? gpt.resting : gpt.states);
  const auto new_gradients = static_cast<double>(work.pieces > 1 ? 0 : gpt.other_gradients);
  const double kept = states + work.kept_bytes + scale * (stream + blocks_kept);
  const double at_loss =
      kept + scale * std::max(static_cast<double>(gpt.head_peak), head_kept + 2 * (head_kept - stream));
  const double in_block = kept + new_gradients + scale * 5 * stream + 4 * width * row;
  const double at_end = static_cast<double>(gpt.resting) + scale * stream;
  const bool has_workspace = baseline.device.is_cuda() && work.workspace_rows > 0;
  // Of the other gradients only the head's is there; the embeddings' come last.
  const double head_gradient = ((head_kept - stream) / (4 * before.rows) - 2) * row;
  const double in_backward = has_workspace ? kept + head_gradient + in_attention(baseline, work) : 0;
  return static_cast<int64_t>(std::max({at_loss, in_block, in_backward, at_end}));
}

/// Seconds of a step: the update and the dispatch of operators stay; all else is in proportion to rows, and the time of
/// attention to pairs. Attention's part of forward is taken for its part of backward, too. Each further micro-batch
/// dispatches every operator again, reads the parameters twice, writes gradients of its own and adds them. Arrays over
/// 32 MiB come from the system each time, which clears them: the logits, their logarithms and two gradients (see lesson
/// 44).
inline double seconds_of_step(const Counted& baseline, const StepWork& before, const StepWork& work) {
  const double copy = baseline.ceiling("cpu_copy_bytes_per_s");
  const double dispatch = static_cast<double>(baseline.whole.operators) * baseline.ceiling("cpu_new_tensor_op_seconds");
  const double fixed = baseline.share("update") * baseline.step_seconds + dispatch;
  const Region& head = baseline.region("head.forward");
  const double attention =
      baseline.region("attention").seconds / (baseline.region("block.forward").seconds + head.seconds);
  const double in_proportion = (1 - attention) * work.rows / before.rows + attention * work.pairs / before.pairs;
  constexpr double kFromTheSystem = 32 << 20;
  const auto clearing = [&](double logits) { return logits > kFromTheSystem ? 4 * logits / copy : 0; };
  const double logits = static_cast<double>(head.retained_bytes) - before.rows * width_of(baseline) * 4;
  const double piece_logits = work.largest_piece / before.rows * logits;
  const double bytes_of_piece =
      2 * static_cast<double>(baseline.parameter_bytes) + 4 * static_cast<double>(baseline.gradient_bytes);
  return fixed + (baseline.step_seconds - fixed - clearing(logits)) * in_proportion +
         clearing(piece_logits) * work.pieces + work.operators * baseline.ceiling("cpu_autograd_op_seconds") +
         (work.pieces - 1) * (dispatch + bytes_of_piece / copy);
}

/// What a step with that work should cost.
inline Prediction predict_step(const Counted& baseline, const StepWork& work) {
  const StepWork before = padded_work(texts_of_step(baseline), pad_to_batch, {});
  return {.speed_ratio = baseline.step_seconds / seconds_of_step(baseline, before, work),
          .peak_bytes = peak_of_step(baseline, before, work)};
}

inline Prediction predict_each(const Counted& baseline) { return predict_step(baseline, work_of_each(baseline)); }
inline Prediction predict_padded_attention(const Counted& baseline) {
  return predict_step(baseline, work_of_padded_attention(baseline));
}
inline Prediction predict_one_mask(const Counted& baseline) {
  return predict_step(baseline, work_of_one_mask(baseline));
}
inline Prediction predict_one_kernel(const Counted& baseline) {
  return predict_step(baseline, work_of_one_kernel(baseline));
}
inline Prediction predict_buckets(const Counted& baseline) {
  return predict_step(baseline, padded_work(texts_of_step(baseline), pad_in_buckets, plan_settings(baseline)));
}
inline Prediction predict_padded_to_data_set(const Counted& baseline) {
  return predict_step(baseline, padded_work(texts_of_step(baseline), pad_to_data_set, plan_settings(baseline)));
}

}  // namespace tenfold::inline lesson_15
