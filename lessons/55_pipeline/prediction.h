#pragma once
// What a pipeline should do to one process's step of the GPT.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/harness/lesson.h"
#include "common/models/gpt_memory.h"
#include "pipeline_check.h"
#include "settings.h"

namespace tenfold::inline lesson_55 {

/// Bytes of what the passes of one micro-batch make, from the case's settings.
struct MicroBatchBytes {
  int64_t rows, stream, logits;  ///< stream: (B / micro-batches, T, D), what goes over a boundary

  explicit MicroBatchBytes(const Counted& one_process)
      : rows(one_process.get(gpt::kBatch) / one_process.get(kMicroBatches) * one_process.get(gpt::kLength)),
        stream(4 * rows * one_process.get(gpt::kWidth)),
        logits(4 * rows * vocabulary_of(one_process)) {}

  static int64_t vocabulary_of(const Counted& one_process) { return gpt_options(one_process).vocabulary(); }
};

/// A rank's peak: its own part of parameters and momentum, a chunk's gradients once it has run a backward, and of each
/// micro-batch that it holds its blocks' activations with their input, of the last stage also what the loss keeps. On
/// top comes the larger of two moments: in a block's backward gradients of the inner layer twice, a linear layer's new
/// gradient, and the result and its gradient, which the pipeline holds; or the loss with its logits and their gradient.
/// In a split schedule a backward leaves of each block the inputs of its four linear layers, 7 D numbers a token, and
/// the gradients of their results, 9 D. In the block's backward the inner layer's activation, 4 D, is thus still there,
/// and a linear layer's new gradient comes with the weights' gradients.
inline int64_t peak_bytes_of(const Counted& one_process, const PipelineSchedule& schedule, int rank) {
  const MicroBatchBytes bytes(one_process);
  const int64_t width = one_process.get(gpt::kWidth), layers = one_process.get(gpt::kLayers);
  const int64_t vocabulary = MicroBatchBytes::vocabulary_of(one_process), length = one_process.get(gpt::kLength);
  const int64_t kept = one_process.region("block.forward").largest_retained_bytes;
  const int64_t kept_loss = bytes.stream + 8 * bytes.rows + bytes.logits;  // the norm's result, and the logarithms
  const int64_t new_gradient = 16 * width * width;
  const int64_t in_block = schedule.split ? 10 * bytes.stream : 6 * bytes.stream + new_gradient;

  struct Chunk {
    int64_t parameters = 0, held = 0, left = 0;  // held: by one micro-batch; left: for its weights' gradients
    bool has_loss = false, has_gradients = false;
  };
  std::vector<Chunk> chunks;
  int64_t parameters = 0;
  for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
    const int stage = schedule.stage_of(rank, chunk);
    const BlockRange own = blocks_of(layers, stage, schedule.stages());
    Chunk& next = chunks.emplace_back();
    next.has_loss = stage + 1 == schedule.stages();
    next.parameters = (own.end - own.begin) * block_parameter_bytes(width);
    if (stage == 0) next.parameters += 4 * (vocabulary + length) * width;
    if (next.has_loss) next.parameters += 4 * (vocabulary + 2) * width;
    next.left = schedule.split ? (own.end - own.begin) * 16 * bytes.stream : 0;
    next.held = (own.end - own.begin) * kept + bytes.stream + (next.has_loss ? kept_loss : 0);
    parameters += next.parameters;
  }
  int64_t now = 2 * parameters + 2 * 8 * one_process.get(gpt::kBatch) * length, most = 0;  // with ids and targets
  for (const PipelineAction& action : schedule.of_rank.at(static_cast<size_t>(rank))) {
    Chunk& own = chunks[static_cast<size_t>(action.chunk)];
    if (action.pass == PipelinePass::weight_gradients) {
      if (!std::exchange(own.has_gradients, true))
        now += own.parameters;
      else
        most = std::max(most, now + new_gradient);
      most = std::max(most, now);
      now -= own.left;
      continue;
    }
    if (action.pass == PipelinePass::forward) now += own.held;
    // The loss's backward frees the logarithms before it comes to the blocks.
    most =
        std::max(most, now + std::max(in_block - (own.has_loss ? kept_loss : 0), own.has_loss ? 2 * bytes.logits : 0));
    if (action.pass == PipelinePass::forward) continue;
    now += own.left - own.held;
    if (!schedule.split && !std::exchange(own.has_gradients, true)) now += own.parameters;
    most = std::max(most, now);
  }
  return most;
}

/// Of a block's floating-point operations, the part of its linear layers: 24 D^2 a token next to 4 T D of attention. In
/// a backward half of that part is the weights' gradients.
inline double linear_share_of(const Counted& one_process) {
  const auto width = static_cast<double>(one_process.get(gpt::kWidth));
  return 24 * width / (24 * width + 4 * static_cast<double>(one_process.get(gpt::kLength)));
}

/// Seconds of a rank's step: the schedule's timeline with each stage's share of what one process computes, a message at
/// the probed latency and rate of an exchange between two ranks, and its part of the optimizer's step.
inline double step_seconds_of(const Counted& one_process, const PipelineSchedule& schedule) {
  const MicroBatchBytes bytes(one_process);
  const double step = one_process.step_seconds, micro_batches = schedule.micro_batches;
  const double data = one_process.share("data") * step, optimizer = one_process.share("optimizer") * step;
  const double blocks = one_process.share("block.forward") * step / micro_batches;
  const double head = one_process.share("head.forward") * step / micro_batches;
  const double backward = (step - data - optimizer) / micro_batches - blocks - head;
  PassTimes times = equal_stages(schedule, 0, 0);
  times.weights_share = 0.5 * linear_share_of(one_process);
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const int64_t layers = one_process.get(gpt::kLayers);
    const BlockRange own = blocks_of(layers, stage, schedule.stages());
    const double forward = blocks * static_cast<double>(own.end - own.begin) / static_cast<double>(layers) +
                           (stage + 1 == schedule.stages() ? head : 0);
    times.forward[static_cast<size_t>(stage)] = forward;
    times.backward[static_cast<size_t>(stage)] = backward * forward / (blocks + head);
  }
  times.message = one_process.ceiling("cpu_all_reduce_seconds") +
                  static_cast<double>(bytes.stream) / one_process.ceiling("cpu_all_reduce_bytes_per_s");
  return timeline_of(schedule, times).length + data + optimizer / schedule.ranks;
}

inline Prediction predict_schedule(const Counted& one_process, const PipelineSchedule& schedule) {
  const MicroBatchBytes bytes(one_process);
  int64_t peak = 0, sent = 0;
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    peak = std::max(peak, peak_bytes_of(one_process, schedule, rank));
    sent = std::max(sent, messages_of(schedule, rank) * bytes.stream);
  }
  if (one_process.get(kTied)) sent += 4 * MicroBatchBytes::vocabulary_of(one_process) * one_process.get(gpt::kWidth);
  return {.speed_ratio = one_process.step_seconds / step_seconds_of(one_process, schedule),
          .peak_bytes = peak,
          .sent_bytes = sent};
}

inline int micro_batches_of(const Counted& one_process) { return static_cast<int>(one_process.get(kMicroBatches)); }

inline Prediction predict_naive(const Counted& one_process) {
  return predict_schedule(one_process, naive_schedule(one_process.ranks, micro_batches_of(one_process)));
}
inline Prediction predict_gpipe(const Counted& one_process) {
  return predict_schedule(one_process, gpipe_schedule(one_process.ranks, micro_batches_of(one_process)));
}
inline Prediction predict_one_f_one_b(const Counted& one_process) {
  return predict_schedule(one_process, one_f_one_b_schedule(one_process.ranks, micro_batches_of(one_process)));
}
inline Prediction predict_interleaved(const Counted& one_process) {
  const auto chunks = static_cast<int>(one_process.get(kVirtualStages));
  return predict_schedule(one_process, interleaved_schedule(one_process.ranks, micro_batches_of(one_process), chunks));
}
inline Prediction predict_zb_h1(const Counted& one_process) {
  return predict_schedule(one_process, zb_h1_schedule(one_process.ranks, micro_batches_of(one_process)));
}

}  // namespace tenfold::inline lesson_55
