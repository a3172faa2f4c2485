#pragma once
// The kept solution of exercise 55; CI proves that it passes.
#include <algorithm>
#include <vector>

#include "lessons/55_pipeline/pipeline_schedule.h"

/// The order in which rank `rank` of `ranks` runs the forward and backward passes of its stage in 1F1B: each
/// micro-batch once forward and once backward, in rising order, with no more of them held than the ranks from this one
/// to the last.
inline std::vector<tenfold::PipelineAction> order_of_rank(int rank, int ranks, int micro_batches) {
  using tenfold::PipelineAction;
  using tenfold::PipelinePass;
  const int ahead = std::min(micro_batches, ranks - 1 - rank);  // as many as there are ranks behind this one
  std::vector<PipelineAction> order;
  for (int i = 0; i < ahead; ++i) order.push_back({PipelinePass::forward, i});
  for (int i = 0; i + ahead < micro_batches; ++i) {
    order.push_back({PipelinePass::forward, i + ahead});
    order.push_back({PipelinePass::backward, i});
  }
  for (int i = micro_batches - ahead; i < micro_batches; ++i) order.push_back({PipelinePass::backward, i});
  return order;
}
