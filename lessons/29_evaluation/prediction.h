#pragma once
// What an evaluation of the GPT without a graph should need, and the most that one with a graph may.

#include <algorithm>
#include <cstdint>

#include "common/harness/lesson.h"
#include "common/models/gpt_memory.h"
#include "evaluation.h"

namespace tenfold::inline lesson_29 {

/// Ids and targets.
inline int64_t held_out_bytes(const GptOptions& options, int64_t sequences) {
  return 2 * 8 * sequences * options.length;
}

/// What a forward pass over so many sequences has alive at a time, besides what rests between two steps. A block's
/// variables live until it returns, whether a graph holds them or not: its input, queries, keys and values, what
/// attention gave, the residual sum, the norm's result, the inner layer before and after GELU at four each, and the
/// result: 16 streams. The loss has the logits and the logarithms of the probabilities. Without a graph the highest of
/// these moments counts; with one, every block keeps as much (gpt.cpp) until the loss is gone.
inline int64_t forward_bytes(const GptOptions& options, int64_t sequences, bool graph) {
  const int64_t rows = sequences * options.length;
  const int64_t stream = 4 * rows * options.width;  // (B, T, D)
  const int64_t logits = 4 * rows * options.vocabulary();
  if (!graph) return std::max(16 * stream, 2 * stream + 2 * logits);
  const int64_t kept = 16 * stream + 4 * rows * (4 + options.heads);
  return stream + options.layers * kept + stream + 2 * logits + 8 * rows;
}

inline Prediction predict_at(const Counted& with_graph, int64_t sequences) {
  if (with_graph.workload != gpt_workload) return {};
  const GptOptions options = gpt_options(with_graph);
  const int64_t held_out = with_graph.get(kHeldOut);
  const int64_t training = step_peak_bytes(options, with_graph.device) + held_out_bytes(options, held_out);
  const int64_t evaluation =
      with_graph.resting_bytes + forward_bytes(options, std::min(sequences, held_out), /*graph=*/false);
  return {.peak_bytes = std::max(training, evaluation)};
}

/// Peak: training's or the evaluation's, whichever is higher. Speed: the arithmetic is the same; what a graph costs in
/// bookkeeping has no ceiling that says it, so none is taken off.
inline Prediction predict_no_grad(const Counted& with_graph) {
  Prediction prediction = predict_at(with_graph, with_graph.get(kEvaluationBatch));
  prediction.speed_ratio = 1;
  return prediction;
}

/// Speed: a batch less is a forward pass less whose operators are dispatched.
inline Prediction predict_larger_batch(const Counted& with_graph) {
  const int64_t held_out = with_graph.get(kHeldOut), larger = with_graph.get(kLargerBatch);
  const auto batches = [&](int64_t rows) { return (held_out + rows - 1) / rows; };
  Prediction prediction = predict_at(with_graph, larger);
  const auto now = static_cast<double>(batches(with_graph.get(kEvaluationBatch)));
  const double saved = static_cast<double>(with_graph.region("evaluation").operators) *
                       (1 - static_cast<double>(batches(larger)) / now) *
                       with_graph.ceiling("cpu_new_tensor_op_seconds");
  prediction.speed_ratio = with_graph.step_seconds / (with_graph.step_seconds - saved);
  return prediction;
}

/// Of the update and of the evaluation with a graph.
inline int64_t evaluation_most_bytes(const Trial& trial) {
  const int64_t held_out = trial.get(kHeldOut), sequences = std::min(trial.get(kEvaluationBatch), held_out);
  if (trial.workload == gpt_workload) {
    const GptOptions options = gpt_options(trial);
    const int64_t resting = 3 * parameter_bytes(options);
    return held_out_bytes(options, held_out) + std::max(step_peak_bytes(options, trial.device),
                                                        resting + forward_bytes(options, sequences, /*graph=*/true));
  }
  // The convnet at its second ReLU: of the first layer's size the norm's input and the ReLU's result, and for oneDNN
  // the latter once more, in blocks; of half that size the second's norm's input and result, and the ReLU's. In
  // training, of the smaller batch, gradients come on top: those of its plain form, and two more of the first's size.
  const ConvNetOptions options = convnet_options(trial);
  const auto first = [&](int64_t images) { return 4 * images * options.channels * options.side * options.side; };
  const int64_t batch = trial.get(convnet::kBatch);
  return held_out * (4 * options.side * options.side + 8) +
         std::max(first(sequences) * 9 / 2, step_peak_bytes(options, batch, trial.device) + 2 * first(batch));
}

}  // namespace tenfold::inline lesson_29
