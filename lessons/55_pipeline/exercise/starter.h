#pragma once
// Your answer to exercise 55. Build and check it with: ./tenfold exercise 55
#include <vector>

#include "lessons/55_pipeline/pipeline_schedule.h"

/// The order in which rank `rank` of `ranks` runs the forward and backward passes of its stage in 1F1B: each
/// micro-batch once forward and once backward, in rising order, with no more of them held than the ranks from this one
/// to the last.
inline std::vector<tenfold::PipelineAction> order_of_rank(int rank, int ranks, int micro_batches) {
  using tenfold::PipelineAction;
  using tenfold::PipelinePass;
  static_cast<void>(rank);
  static_cast<void>(ranks);
  // This is GPipe: all forwards, then all backwards.
  std::vector<PipelineAction> order;
  for (int i = 0; i < micro_batches; ++i) order.push_back({PipelinePass::forward, i});
  // Hint: how many forwards must rank 0 run before the first gradient can come back to it? And the last rank?
  for (int i = 0; i < micro_batches; ++i) order.push_back({PipelinePass::backward, i});
  return order;
}
