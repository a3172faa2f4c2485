#pragma once
// Published rates of 1F1B and interleaved 1F1B on the same GPUs, and what their timelines say. The virtual stages are
// not stated: two, the fewest, are taken. Nor are the micro-batches: torchtitan's default is the number of ranks
// (pipelining_utils.py of that time). So the gain is given for two numbers of micro-batches, with the number whose gain
// comes nearest to the published one. Nothing is fitted: messages take no time.

#include <cmath>

#include "common/measure/trial.h"
#include "pipeline_check.h"

namespace tenfold::inline lesson_55 {

struct PublishedOrder {
  int ranks = 0;
  double one_f_one_b = 0, interleaved = 0;  ///< items per second, in the source's unit
};

/// Tokens/s of a GPU, Llama 3.1 405B, 512 H100 as FSDP 8 x TP 8 x PP 8.
/// Source: pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md, table 5; issue 773 has the same two and
/// "Interleaved Zero Bubble" with 13, labelled a bug: no timeline puts it below 1F1B.
inline constexpr PublishedOrder kTorchtitan{8, 100, 128};

/// Samples/s, 6.2 G parameters on 8 H800. Source: sail-sg/zero-bubble-pipeline-parallelism, issue 21, which also has
/// ZB-2P with 67 and ZB-V with 64.
inline constexpr PublishedOrder kZeroBubble{8, 55, 66};

/// How much faster interleaved 1F1B with two virtual stages is by the timelines, with backward twice forward.
inline double interleaving_gain(int ranks, int micro_batches) {
  const auto length = [](const PipelineSchedule& schedule) {
    return timeline_of(schedule, equal_stages(schedule, 1, 2)).length;
  };
  return length(one_f_one_b_schedule(ranks, micro_batches)) / length(interleaved_schedule(ranks, micro_batches, 2));
}

inline double gain_of(const PublishedOrder& published) { return published.interleaved / published.one_f_one_b; }

/// The micro-batches whose gain comes nearest to the published one, in multiples of the ranks.
inline int nearest_micro_batches(const PublishedOrder& published) {
  const auto miss = [&](int micro_batches) {
    return std::abs(interleaving_gain(published.ranks, micro_batches) - gain_of(published));
  };
  int nearest = published.ranks;  // the gain falls with every further group of micro-batches
  while (miss(nearest + published.ranks) < miss(nearest)) nearest += published.ranks;
  return nearest;
}

inline void note_order(const Trial& trial, const PublishedOrder& published) {
  trial.note("interleaved against 1F1B, published elsewhere", gain_of(published), "x");
  trial.note("by the timelines, micro-batches = ranks", interleaving_gain(published.ranks, published.ranks), "x");
  trial.note("by the timelines, micro-batches = 4 x ranks", interleaving_gain(published.ranks, 4 * published.ranks),
             "x");
  trial.note("micro-batches whose gain is nearest", nearest_micro_batches(published), "");
}

inline void torchtitan_order(const Trial& trial) { note_order(trial, kTorchtitan); }
inline void zero_bubble_order(const Trial& trial) { note_order(trial, kZeroBubble); }

}  // namespace tenfold::inline lesson_55
