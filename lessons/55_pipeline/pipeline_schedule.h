// installs as <tenfold/pipeline_schedule.h>
#pragma once
// Pipeline schedules as plain data: in which order each rank runs the forward and backward passes of micro-batches.
// They are checked before anything is said of them: that every pass has its inputs, that nobody waits for ever, what
// each rank holds. Only of a checked schedule a timeline is made. Sources: Y. Huang et al., GPipe, NeurIPS 2019; D.
// Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, SC 2021 (1F1B with
// flushes, and interleaved); P. Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, arXiv 2401.10241 (ZB-H1).

#include <algorithm>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tenfold {

enum class PipelinePass {
  forward,
  backward,         ///< gradients of a stage's input and of its weights; in a split schedule of its input alone
  weight_gradients  ///< those of its weights, in a split schedule
};

/// One pass of one micro-batch through one of the rank's virtual stages ("chunks").
struct PipelineAction {
  PipelinePass pass = PipelinePass::forward;
  int micro_batch = 0;
  int chunk = 0;
  bool operator==(const PipelineAction&) const = default;
};

/// The model is cut into ranks x chunks stages; stage s lies on rank s % ranks.
struct PipelineSchedule {
  int ranks = 1, micro_batches = 1, chunks = 1;
  std::vector<std::vector<PipelineAction>> of_rank = {};  ///< each rank's actions, in order
  bool split = false;  ///< the weights' gradients are a pass of their own, which no other rank waits for

  int stages() const { return ranks * chunks; }
  int stage_of(int rank, int chunk) const { return chunk * ranks + rank; }
  int rank_of(int stage) const { return stage % ranks; }
  int chunk_of(int stage) const { return stage / ranks; }
};

namespace pipeline_detail {

/// Warm-up forwards, then a forward and a backward in turns, then the backwards that are left. `forward_at(k)` and
/// `backward_at(k)` say which pass is a rank's k-th.
template <class ForwardAt, class BackwardAt>
std::vector<PipelineAction> one_forward_one_backward(int passes, int warm_up, ForwardAt forward_at,
                                                     BackwardAt backward_at) {
  std::vector<PipelineAction> order;
  for (int k = 0; k < warm_up; ++k) order.push_back(forward_at(k));
  for (int k = warm_up; k < passes; ++k) {
    order.push_back(forward_at(k));
    order.push_back(backward_at(k - warm_up));
  }
  for (int k = passes - warm_up; k < passes; ++k) order.push_back(backward_at(k));
  return order;
}

inline PipelineSchedule one_chunk(int ranks, int micro_batches, auto warm_up_of) {
  PipelineSchedule schedule{ranks, micro_batches};
  for (int rank = 0; rank < ranks; ++rank) {
    schedule.of_rank.push_back(one_forward_one_backward(
        micro_batches, std::min(micro_batches, warm_up_of(rank)),
        [](int k) { return PipelineAction{PipelinePass::forward, k}; },
        [](int k) { return PipelineAction{PipelinePass::backward, k}; }));
  }
  return schedule;
}

}  // namespace pipeline_detail

/// One micro-batch at a time goes through all stages and back: one rank works, the others wait.
inline PipelineSchedule naive_schedule(int ranks, int micro_batches) {
  return pipeline_detail::one_chunk(ranks, micro_batches, [](int) { return 0; });
}

/// GPipe: all forwards, then all backwards. A rank holds the activations of all micro-batches.
inline PipelineSchedule gpipe_schedule(int ranks, int micro_batches) {
  return pipeline_detail::one_chunk(ranks, micro_batches, [=](int) { return micro_batches; });
}

/// 1F1B: as many forwards first as there are ranks behind this one, then one forward and one backward in turns. A rank
/// holds the activations of at most ranks - rank micro-batches.
inline PipelineSchedule one_f_one_b_schedule(int ranks, int micro_batches) {
  return pipeline_detail::one_chunk(ranks, micro_batches, [=](int rank) { return ranks - 1 - rank; });
}

/// Interleaved 1F1B: each rank has `chunks` stages of the model that lie apart, so that a pass reaches the last rank
/// `chunks` times as soon. Micro-batches go in groups of `ranks` through a rank's chunks, one chunk after the other.
/// Throws std::invalid_argument unless the ranks divide the micro-batches.
inline PipelineSchedule interleaved_schedule(int ranks, int micro_batches, int chunks) {
  if (micro_batches % ranks != 0) {
    throw std::invalid_argument("interleaved 1F1B: " + std::to_string(ranks) + " ranks do not divide " +
                                std::to_string(micro_batches) + " micro-batches");
  }
  PipelineSchedule schedule{ranks, micro_batches, chunks};
  const int group = ranks * chunks, passes = micro_batches * chunks;
  const auto micro_batch_at = [=](int k) { return k / group * ranks + k % ranks; };
  for (int rank = 0; rank < ranks; ++rank) {
    const int warm_up = std::min(passes, 2 * (ranks - 1 - rank) + (chunks - 1) * ranks);
    schedule.of_rank.push_back(pipeline_detail::one_forward_one_backward(
        passes, warm_up,
        [=](int k) { return PipelineAction{PipelinePass::forward, micro_batch_at(k), k % group / ranks}; },
        [=](int k) {
          return PipelineAction{PipelinePass::backward, micro_batch_at(k), chunks - 1 - k % group / ranks};
        }));
  }
  return schedule;
}

/// ZB-H1, a zero-bubble schedule: 1F1B whose backward is split. A gradient goes to the rank before as soon as it is
/// there, and the weights' gradients are computed where the rank would wait. Rank r has them r micro-batches late, so
/// that every rank holds as many micro-batches as the first one does in 1F1B: the smaller of ranks and micro-batches.
/// torch.distributed.pipelining's ScheduleInterleavedZeroBubble of one stage on each rank has the same order.
inline PipelineSchedule zb_h1_schedule(int ranks, int micro_batches) {
  PipelineSchedule schedule = one_f_one_b_schedule(ranks, micro_batches);
  schedule.split = true;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<PipelineAction> order;
    int next = 0;  // micro-batch whose weights' gradients are to come
    for (const PipelineAction& action : schedule.of_rank[static_cast<size_t>(rank)]) {
      order.push_back(action);
      if (action.pass == PipelinePass::backward && action.micro_batch >= rank)
        order.push_back({PipelinePass::weight_gradients, next++});
    }
    while (next < micro_batches) order.push_back({PipelinePass::weight_gradients, next++});
    schedule.of_rank[static_cast<size_t>(rank)] = std::move(order);
  }
  return schedule;
}

/// An action on a rank.
struct PlacedAction {
  int rank = 0;
  PipelineAction action;
};

/// Whose result an action takes: the stage before in forward, the stage behind in backward. The first stage's forward
/// takes data, the last one's backward its own loss, weights' gradients what their rank's backward has left.
inline std::optional<PlacedAction> producer_of(const PipelineSchedule& schedule, int rank,
                                               const PipelineAction& action) {
  if (action.pass == PipelinePass::weight_gradients) return std::nullopt;
  const int from = schedule.stage_of(rank, action.chunk) + (action.pass == PipelinePass::forward ? -1 : 1);
  if (from < 0 || from >= schedule.stages()) return std::nullopt;
  return PlacedAction{schedule.rank_of(from), {action.pass, action.micro_batch, schedule.chunk_of(from)}};
}

/// Who takes an action's result.
inline std::optional<PlacedAction> consumer_of(const PipelineSchedule& schedule, int rank,
                                               const PipelineAction& action) {
  if (action.pass == PipelinePass::weight_gradients) return std::nullopt;
  const int to = schedule.stage_of(rank, action.chunk) + (action.pass == PipelinePass::forward ? 1 : -1);
  if (to < 0 || to >= schedule.stages()) return std::nullopt;
  return PlacedAction{schedule.rank_of(to), {action.pass, action.micro_batch, schedule.chunk_of(to)}};
}

/// Messages that a rank sends in one run of the schedule.
inline int messages_of(const PipelineSchedule& schedule, int rank) {
  return static_cast<int>(
      std::ranges::count_if(schedule.of_rank.at(static_cast<size_t>(rank)), [&](const PipelineAction& a) {
        const auto to = consumer_of(schedule, rank, a);
        return to && to->rank != rank;
      }));
}

}  // namespace tenfold
