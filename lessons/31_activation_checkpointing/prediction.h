#pragma once
// What activation checkpointing should do to a training step of the GPT, for any plan.

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <vector>

#include "common/harness/lesson.h"
#include "common/measure/changed_step.h"
#include "common/models/gpt_memory.h"
#include "common/models/precision.h"
#include "plan.h"

namespace tenfold::inline lesson_31 {

/// Of keeping all, with or without dropout.
inline int64_t most_bytes(const Trial& trial) { return step_peak_bytes(gpt_options(trial), trial.device); }

/// What neighbouring blocks hold: `kept` from forward until their backward, `again` while their backward runs.
struct Held {
  int64_t blocks, kept, again;
};

/// Peak bytes of a step. Parameters and optimizer state are always there, and forward adds what is kept. Then backward
/// walks from the last segment to the first: what is recomputed there is on top of what the segments before it keep and
/// of the gradients of those behind it; afterwards its activations are gone and its gradients there. The peak is the
/// highest of these moments, the head's included. On top of each comes what is in flight, GptBytes::block_working.
inline int64_t highest_of(const std::vector<Held>& segments, const Counted& keep_all) {
  const GptBytes bytes(keep_all);
  const int64_t logits = 4 * bytes.rows * gpt_options(keep_all).vocabulary();

  int64_t held = bytes.states + bytes.stream;  // the first block's input, too
  for (const Held& segment : segments) held += segment.kept;
  // The gradients of the logits and of their logarithms; in 16 bits, too, the loss is in 32.
  int64_t peak = held + std::max(bytes.head_peak, bytes.head_kept + 2 * logits);
  held += bytes.other_gradients;
  for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
    peak = std::max(peak, held + segment->again + bytes.block_working);
    held += segment->blocks * bytes.block_gradients - segment->kept;
  }
  return std::max(peak, bytes.resting);
}

/// Of a recomputed segment forward keeps the input and the random state; in its backward the whole segment is there
/// again. What a kept block keeps is counted on the baseline.
inline int64_t peak_of(const Plan& plan, const Counted& keep_all) {
  const GptBytes bytes(keep_all);
  int64_t checkpoint_kept = bytes.stream;
  // It lies in the host's memory.
  if (keep_all.device.is_cpu())
    checkpoint_kept += static_cast<int64_t>(at::detail::getDefaultCPUGenerator().get_state().nbytes());
  std::vector<Held> segments;
  for (const Segment& segment : plan) {
    const int64_t whole = segment.blocks() * bytes.block_kept;
    segments.push_back({.blocks = segment.blocks(),
                        .kept = segment.recompute ? checkpoint_kept : whole,
                        .again = segment.recompute ? whole : 0});
  }
  return highest_of(segments, keep_all);
}

/// Speed: the recomputed blocks' forward is paid twice.
inline Prediction predict_plan(const Plan& plan, const Counted& keep_all) {
  int64_t recomputed = 0;
  int64_t blocks = 0;
  for (const Segment& segment : plan) {
    blocks += segment.blocks();
    if (segment.recompute) recomputed += segment.blocks();
  }
  const double part = static_cast<double>(recomputed) / static_cast<double>(blocks);
  return {.speed_ratio = 1 / (1 + part * keep_all.share("block.forward")), .peak_bytes = peak_of(plan, keep_all)};
}

/// What a technique with these plans should do.
inline std::function<Prediction(const Counted&)> predict(MakePlan make_plan) {
  return [make_plan](const Counted& keep_all) { return predict_plan(make_plan(keep_all.get(gpt::kLayers)), keep_all); };
}

/// Peak: a block does not keep the results of its norms, a stream each, and of GELU, four. They are inputs of matmuls:
/// in 16 bits of 2 bytes a number. GELU's is there again when the block's backward begins. Speed: they are read and
/// written once more.
inline Prediction predict_selective(const Counted& keep_all) {
  const GptBytes bytes(keep_all);
  const int64_t stream = keep_all.get(kPrecision) == "bfloat16" ? bytes.stream / 2 : bytes.stream;
  const std::vector<Held> segments(static_cast<size_t>(bytes.blocks),
                                   {.blocks = 1, .kept = bytes.block_kept - 6 * stream, .again = 4 * stream});
  const AddedWork added{.operators = static_cast<double>(3 * bytes.blocks),
                        .bytes = static_cast<double>(bytes.blocks * (2 * bytes.stream + 10 * stream))};
  return {.speed_ratio = speed_with(keep_all, seconds_of(added, keep_all)),
          .peak_bytes = highest_of(segments, keep_all)};
}

}  // namespace tenfold::inline lesson_31
