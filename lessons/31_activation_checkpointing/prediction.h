#pragma once
// What activation checkpointing should do to a training step of the GPT, for any plan.

#include <ATen/CPUGeneratorImpl.h>

#include "common/harness/lesson.h"
#include "common/models/gpt_memory.h"
#include "plan.h"

namespace tenfold::inline lesson_31 {

/// Of keeping all, with or without dropout.
inline int64_t most_bytes(const Trial& trial) { return step_peak_bytes(gpt_options(trial), trial.device); }

/// Peak bytes of a step. Parameters and optimizer state are always there. Forward adds what a kept block keeps (counted
/// on the baseline), or the input and the random state of a recomputed segment. Then backward walks from the last
/// segment to the first: a recomputed one is there again as a whole, on top of what the segments before it keep and of
/// the gradients of those behind it; afterwards its activations are gone and its gradients there. The peak is the
/// highest of these moments, the head's included. On top of each comes what is in flight, GptBytes::block_working.
inline int64_t peak_of(const Plan& plan, const Counted& keep_all) {
  const GptBytes bytes(keep_all);
  int64_t checkpoint_kept = bytes.stream;
  // It lies in the host's memory.
  if (keep_all.device.is_cpu())
    checkpoint_kept += static_cast<int64_t>(at::detail::getDefaultCPUGenerator().get_state().nbytes());
  const auto whole = [&](const Segment& segment) { return segment.blocks() * bytes.block_kept; };
  const auto kept = [&](const Segment& segment) { return segment.recompute ? checkpoint_kept : whole(segment); };

  int64_t held = bytes.states + bytes.stream;  // the first block's input, too
  for (const Segment& segment : plan) held += kept(segment);
  int64_t peak = held + bytes.head_most();
  held += bytes.other_gradients;
  for (auto segment = plan.rbegin(); segment != plan.rend(); ++segment) {
    const int64_t recomputed = segment->recompute ? whole(*segment) : 0;
    peak = std::max(peak, held + recomputed + bytes.block_working);
    held += segment->blocks() * bytes.block_gradients - kept(*segment);
  }
  return std::max(peak, bytes.resting);
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

}  // namespace tenfold::inline lesson_31
