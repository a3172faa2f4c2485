// installs as <tenfold/pipeline_schedule.h>
#pragma once
// Pipeline schedules as plain data: in which order each rank runs the forward and backward passes of micro-batches.
// They are checked before anything is said of them: that every pass has its inputs, that nobody waits for ever, what
// each rank holds. Only of a checked schedule a timeline is made. Sources: Y. Huang et al., GPipe, NeurIPS 2019; D.
// Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, SC 2021 (1F1B with
// flushes, and interleaved).

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tenfold {

enum class PipelinePass { forward, backward };

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

/// An action on a rank.
struct PlacedAction {
  int rank = 0;
  PipelineAction action;
};

/// Whose result an action takes: the stage before in forward, the stage behind in backward. The first stage's forward
/// takes data, the last one's backward its own loss.
inline std::optional<PlacedAction> producer_of(const PipelineSchedule& schedule, int rank,
                                               const PipelineAction& action) {
  const int from = schedule.stage_of(rank, action.chunk) + (action.pass == PipelinePass::forward ? -1 : 1);
  if (from < 0 || from >= schedule.stages()) return std::nullopt;
  return PlacedAction{schedule.rank_of(from), {action.pass, action.micro_batch, schedule.chunk_of(from)}};
}

/// Who takes an action's result.
inline std::optional<PlacedAction> consumer_of(const PipelineSchedule& schedule, int rank,
                                               const PipelineAction& action) {
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

/// What a message takes, and what a pass takes in each stage, in any unit.
struct PassTimes {
  std::vector<double> forward, backward;  ///< of each stage
  double message = 0;
};
/// Equal stages that divide a model's passes.
inline PassTimes equal_stages(const PipelineSchedule& schedule, double forward, double backward, double message = 0) {
  const auto stages = static_cast<size_t>(schedule.stages());
  return {std::vector(stages, forward / schedule.stages()), std::vector(stages, backward / schedule.stages()), message};
}

struct TimedAction {
  PipelineAction action;
  double begin = 0, end = 0;
};

struct PipelineTimeline {
  std::vector<std::vector<TimedAction>> of_rank;
  double length = 0;  ///< until the last rank has finished
  double busy = 0;    ///< of all ranks together

  /// The bubble: the share of the ranks' time in which they wait.
  double idle_share() const { return 1 - busy / (length * static_cast<double>(of_rank.size())); }
};

namespace pipeline_detail {

using PassKey = std::tuple<PipelinePass, int, int>;  // pass, stage, micro-batch

inline PassKey key_of(const PipelineSchedule& schedule, int rank, const PipelineAction& action) {
  return {action.pass, schedule.stage_of(rank, action.chunk), action.micro_batch};
}

/// Every rank runs its actions as soon as their inputs are there. Ranks that wait for ever stop early.
inline PipelineTimeline run_all(const PipelineSchedule& schedule, const PassTimes& times) {
  PipelineTimeline timeline{.of_rank = std::vector<std::vector<TimedAction>>(schedule.of_rank.size())};
  std::map<PassKey, double> ended;
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < schedule.ranks; ++rank) {
      const auto& order = schedule.of_rank[static_cast<size_t>(rank)];
      auto& done = timeline.of_rank[static_cast<size_t>(rank)];
      for (; done.size() < order.size(); moved = true) {
        const PipelineAction& action = order[done.size()];
        double begin = done.empty() ? 0 : done.back().end;
        if (const auto from = producer_of(schedule, rank, action)) {
          const auto input = ended.find(key_of(schedule, from->rank, from->action));
          if (input == ended.end()) break;
          begin = std::max(begin, input->second + (from->rank == rank ? 0 : times.message));
        }
        const auto stage = static_cast<size_t>(schedule.stage_of(rank, action.chunk));
        const double takes = (action.pass == PipelinePass::forward ? times.forward : times.backward).at(stage);
        done.push_back({action, begin, begin + takes});
        ended[key_of(schedule, rank, action)] = begin + takes;
        timeline.length = std::max(timeline.length, begin + takes);
        timeline.busy += takes;
      }
    }
  }
  return timeline;
}

inline std::string text_of(int rank, const PipelineAction& action) {
  return std::string(action.pass == PipelinePass::forward ? "forward" : "backward") + " of micro-batch " +
         std::to_string(action.micro_batch) + ", chunk " + std::to_string(action.chunk) + ", on rank " +
         std::to_string(rank);
}

/// Each pass of each micro-batch once in each stage, and forward first: else what is wrong.
inline std::string wrong_set_of_actions(const PipelineSchedule& schedule) {
  if (schedule.ranks < 1 || schedule.micro_batches < 1 || schedule.chunks < 1)
    return "ranks, micro-batches and chunks must be at least 1";
  if (schedule.of_rank.size() != static_cast<size_t>(schedule.ranks)) return "there must be one order for each rank";
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const auto& order = schedule.of_rank[static_cast<size_t>(rank)];
    for (int micro_batch = 0; micro_batch < schedule.micro_batches; ++micro_batch) {
      for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
        const PipelineAction forward{PipelinePass::forward, micro_batch, chunk};
        const PipelineAction backward{PipelinePass::backward, micro_batch, chunk};
        for (const PipelineAction& action : {forward, backward}) {
          if (const auto times = std::ranges::count(order, action); times != 1)
            return text_of(rank, action) + ", is there " + std::to_string(times) + " times instead of once";
        }
        if (std::ranges::find(order, backward) < std::ranges::find(order, forward))
          return text_of(rank, backward) + ", comes before its forward";
      }
    }
    if (order.size() != static_cast<size_t>(2 * schedule.micro_batches * schedule.chunks))
      return "rank " + std::to_string(rank) + " has actions of micro-batches or chunks that do not exist";
  }
  return "";
}

/// A message of a rank: to or from whom, and which.
struct PipelineMessage {
  bool is_send = false;
  int peer = 0;
  PassKey key;
  bool operator==(const PipelineMessage&) const = default;
};

inline std::vector<PipelineMessage> messages_in_order(const PipelineSchedule& schedule, int rank) {
  std::vector<PipelineMessage> messages;
  for (const PipelineAction& action : schedule.of_rank[static_cast<size_t>(rank)]) {
    const auto from = producer_of(schedule, rank, action), to = consumer_of(schedule, rank, action);
    if (from && from->rank != rank) messages.push_back({false, from->rank, key_of(schedule, from->rank, from->action)});
    if (to && to->rank != rank) messages.push_back({true, to->rank, key_of(schedule, rank, action)});
  }
  return messages;
}

}  // namespace pipeline_detail

/// What a schedule is found to be.
struct ScheduleCheck {
  std::string fault;      ///< why it cannot train; empty: it can
  std::vector<int> held;  ///< of each rank: most forwards at a time whose backward is still to come, in chunks
  /// Nobody hangs if a rank waits with each send until the receiver takes it. If not, sends must be started and waited
  /// for later.
  bool sends_may_wait = false;
  /// Each pair of ranks takes its messages in the order in which they are sent: for a transport that has no tags.
  bool in_order = true;
};

/// Proves a schedule: each micro-batch goes once forward and once backward through each stage, each pass has its inputs
/// before it begins, and nobody waits for ever.
inline ScheduleCheck check_schedule(const PipelineSchedule& schedule) {
  using namespace pipeline_detail;
  ScheduleCheck check{.fault = wrong_set_of_actions(schedule)};
  if (!check.fault.empty()) return check;
  const PipelineTimeline timeline = run_all(schedule, equal_stages(schedule, 1, 2));
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const auto& order = schedule.of_rank[static_cast<size_t>(rank)];
    if (const size_t done = timeline.of_rank[static_cast<size_t>(rank)].size(); done < order.size()) {
      check.fault = text_of(rank, order[done]) + ", waits for ever: its input comes later";
      return check;
    }
    int held = 0, most = 0;
    for (const PipelineAction& action : order) {
      held += action.pass == PipelinePass::forward ? 1 : -1;
      most = std::max(most, held);
    }
    check.held.push_back(most);
  }

  std::vector<std::vector<PipelineMessage>> messages;
  for (int rank = 0; rank < schedule.ranks; ++rank) messages.push_back(messages_in_order(schedule, rank));
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    for (int peer = 0; peer < schedule.ranks; ++peer) {
      std::vector<PassKey> sent, received;
      for (const PipelineMessage& m : messages[static_cast<size_t>(rank)])
        if (m.is_send && m.peer == peer) sent.push_back(m.key);
      for (const PipelineMessage& m : messages[static_cast<size_t>(peer)])
        if (!m.is_send && m.peer == rank) received.push_back(m.key);
      check.in_order = check.in_order && sent == received;
    }
  }

  std::vector<size_t> at(messages.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < messages.size(); ++rank) {
      if (at[rank] == messages[rank].size() || !messages[rank][at[rank]].is_send) continue;
      const PipelineMessage& send = messages[rank][at[rank]];
      const auto peer = static_cast<size_t>(send.peer);
      const PipelineMessage expected{false, static_cast<int>(rank), send.key};
      if (at[peer] == messages[peer].size() || messages[peer][at[peer]] != expected) continue;
      ++at[rank], ++at[peer];
      moved = true;
    }
  }
  check.sends_may_wait = true;
  for (size_t rank = 0; rank < messages.size(); ++rank)
    check.sends_may_wait = check.sends_may_wait && at[rank] == messages[rank].size();
  return check;
}

/// When each pass begins and ends if every rank runs its actions as soon as it can. Throws std::invalid_argument for a
/// schedule that its check finds at fault: an order that cannot run has no bubble.
inline PipelineTimeline timeline_of(const PipelineSchedule& schedule, const PassTimes& times) {
  if (const std::string fault = check_schedule(schedule).fault; !fault.empty()) throw std::invalid_argument(fault);
  return pipeline_detail::run_all(schedule, times);
}

/// The bubble of equal stages without messages in closed form: GPipe and 1F1B (p - 1) / (m + p - 1), interleaved
/// (p - 1) / (v m + p - 1). Naive has (p - 1) / p.
inline double idle_share_of(int ranks, int micro_batches, int chunks = 1) {
  return (ranks - 1.0) / (static_cast<double>(chunks) * micro_batches + ranks - 1.0);
}

}  // namespace tenfold
