// installs as <tenfold/pipeline_check.h>
#pragma once
// Proves pipeline schedules before anything is said of them: that every pass has its inputs, that nobody waits for
// ever, what each rank holds. Only of a checked schedule a timeline is made, and from it the bubble.

#include <algorithm>
#include <cstddef>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "pipeline_schedule.h"

namespace tenfold {

/// What a message takes, and what a pass takes in each stage, in any unit.
struct PassTimes {
  std::vector<double> forward, backward;  ///< of each stage
  double message = 0;
  double weights_share = 0.5;  ///< of a backward, what the weights' gradients take: a pass of their own if it is split
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

/// Which of a rank's messages go out and are waited for together.
enum class PipelineExchange {
  each,       ///< each by itself
  with_next,  ///< what an action made, and what the next one takes
  in_pairs    ///< what a forward and the backward after it made, and what the next two take: Megatron-LM's way
};

/// A rank's actions in order; between those that stand together it exchanges nothing. Weights' gradients stand last:
/// they are computed while the messages that follow are under way.
inline std::vector<std::vector<PipelineAction>> actions_between_exchanges(const PipelineSchedule& schedule, int rank,
                                                                          PipelineExchange exchange) {
  const auto& order = schedule.of_rank[static_cast<size_t>(rank)];
  // Where all forwards come first, the first backward's gradient may be made of the last forward's result.
  const bool in_pairs = exchange == PipelineExchange::in_pairs &&
                        !std::ranges::is_partitioned(
                            order, [](const PipelineAction& action) { return action.pass == PipelinePass::forward; });
  std::vector<std::vector<PipelineAction>> together;
  for (const PipelineAction& action : order) {
    const bool is_pair = in_pairs && action.pass == PipelinePass::backward && !together.empty() &&
                         together.back().back().pass == PipelinePass::forward;
    const bool joins = is_pair || (action.pass == PipelinePass::weight_gradients && !together.empty());
    if (!joins) together.emplace_back();
    together.back().push_back(action);
  }
  return together;
}

namespace pipeline_detail {

using PassKey = std::tuple<PipelinePass, int, int>;  // pass, stage, micro-batch

inline PassKey key_of(const PipelineSchedule& schedule, int rank, const PipelineAction& action) {
  return {action.pass, schedule.stage_of(rank, action.chunk), action.micro_batch};
}

/// What a pass takes of a rank's time.
inline double time_of(const PipelineSchedule& schedule, const PassTimes& times, int rank,
                      const PipelineAction& action) {
  const auto stage = static_cast<size_t>(schedule.stage_of(rank, action.chunk));
  const double backward = times.backward.at(stage), weights = schedule.split ? backward * times.weights_share : 0;
  switch (action.pass) {
    case PipelinePass::forward:
      return times.forward.at(stage);
    case PipelinePass::backward:
      return backward - weights;
    case PipelinePass::weight_gradients:
      return weights;
  }
  return 0;
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
        const double takes = time_of(schedule, times, rank, action);
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
  const bool is_forward = action.pass == PipelinePass::forward, is_backward = action.pass == PipelinePass::backward;
  return std::string(is_forward    ? "forward"
                     : is_backward ? "backward"
                                   : "weights' gradients") +
         " of micro-batch " + std::to_string(action.micro_batch) + ", chunk " + std::to_string(action.chunk) +
         ", on rank " + std::to_string(rank);
}

/// The passes of a micro-batch through a stage, in the order in which they must come.
inline std::vector<PipelinePass> passes_of(const PipelineSchedule& schedule) {
  if (!schedule.split) return {PipelinePass::forward, PipelinePass::backward};
  return {PipelinePass::forward, PipelinePass::backward, PipelinePass::weight_gradients};
}

/// Each pass of each micro-batch once in each stage, and in its order: else what is wrong.
inline std::string wrong_set_of_actions(const PipelineSchedule& schedule) {
  if (schedule.ranks < 1 || schedule.micro_batches < 1 || schedule.chunks < 1)
    return "ranks, micro-batches and chunks must be at least 1";
  if (schedule.of_rank.size() != static_cast<size_t>(schedule.ranks)) return "there must be one order for each rank";
  const std::vector<PipelinePass> passes = passes_of(schedule);
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const auto& order = schedule.of_rank[static_cast<size_t>(rank)];
    for (int micro_batch = 0; micro_batch < schedule.micro_batches; ++micro_batch) {
      for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
        auto before = order.begin();
        for (const PipelinePass pass : passes) {
          const PipelineAction action{pass, micro_batch, chunk};
          if (const auto times = std::ranges::count(order, action); times != 1)
            return text_of(rank, action) + ", is there " + std::to_string(times) + " times instead of once";
          const auto at = std::ranges::find(order, action);
          if (at < before)
            return text_of(rank, action) + ", comes before its " +
                   (pass == PipelinePass::backward ? "forward" : "backward");
          before = at;
        }
      }
    }
    if (order.size() !=
        passes.size() * static_cast<size_t>(schedule.micro_batches) * static_cast<size_t>(schedule.chunks))
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

/// Messages that a rank waits for together.
using MessageGroups = std::vector<std::vector<PipelineMessage>>;

/// A rank's messages in order, those that are waited for together in one group.
inline MessageGroups messages_in_order(const PipelineSchedule& schedule, int rank, PipelineExchange exchange) {
  MessageGroups groups{{}};
  for (const auto& actions : actions_between_exchanges(schedule, rank, exchange)) {
    if (exchange == PipelineExchange::each) groups.emplace_back();
    for (const PipelineAction& action : actions) {
      if (const auto from = producer_of(schedule, rank, action); from && from->rank != rank)
        groups.back().push_back({false, from->rank, key_of(schedule, from->rank, from->action)});
    }
    groups.emplace_back();
    for (const PipelineAction& action : actions) {
      if (const auto to = consumer_of(schedule, rank, action); to && to->rank != rank)
        groups.back().push_back({true, to->rank, key_of(schedule, rank, action)});
    }
  }
  return groups;
}

/// Whether all messages are taken if every rank waits for each of its groups before it goes on.
inline bool all_are_taken(std::vector<MessageGroups> of_rank) {
  std::vector<size_t> at(of_rank.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < of_rank.size(); ++rank) {
      if (at[rank] == of_rank[rank].size()) continue;
      std::vector<PipelineMessage>& group = of_rank[rank][at[rank]];
      std::erase_if(group, [&](const PipelineMessage& message) {
        const auto peer = static_cast<size_t>(message.peer);
        if (!message.is_send || at[peer] == of_rank[peer].size()) return false;
        const PipelineMessage taken{false, static_cast<int>(rank), message.key};
        return std::erase(of_rank[peer][at[peer]], taken) == 1;
      });
    }
    for (size_t rank = 0; rank < of_rank.size(); ++rank) {
      for (; at[rank] < of_rank[rank].size() && of_rank[rank][at[rank]].empty(); ++at[rank]) moved = true;
    }
  }
  for (size_t rank = 0; rank < of_rank.size(); ++rank)
    if (at[rank] < of_rank[rank].size()) return false;
  return true;
}

/// Whether each pair's messages are received in the order in which they are sent.
inline bool received_as_sent(const std::vector<MessageGroups>& of_rank, int sender, int receiver) {
  const auto messages = [&](int rank, bool is_send, int peer) {
    std::vector<PassKey> keys;
    for (const auto& group : of_rank[static_cast<size_t>(rank)]) {
      for (const PipelineMessage& message : group)
        if (message.is_send == is_send && message.peer == peer) keys.push_back(message.key);
    }
    return keys;
  };
  return messages(sender, true, receiver) == messages(receiver, false, sender);
}

}  // namespace pipeline_detail

/// What a schedule is found to be.
struct ScheduleCheck {
  std::string fault;      ///< why it cannot train; empty: it can
  std::vector<int> held;  ///< of each rank: most forwards at a time whose last pass is still to come, in chunks
  /// Nobody hangs if a rank waits with each send until the receiver takes it. If not, sends must be started and waited
  /// for later.
  bool sends_may_wait = false;
  /// Nobody hangs if a rank waits for each send together with the receive of its next action.
  bool exchanges_may_wait = false;
  /// Nobody hangs if a rank waits for the messages of a forward and a backward together, one pair ahead.
  bool pairs_may_wait = false;
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
      if (action.pass == PipelinePass::forward) ++held;
      if (action.pass == passes_of(schedule).back()) --held;
      most = std::max(most, held);
    }
    check.held.push_back(most);
  }

  const auto of_all_ranks = [&](PipelineExchange exchange) {
    std::vector<MessageGroups> groups;
    for (int rank = 0; rank < schedule.ranks; ++rank) groups.push_back(messages_in_order(schedule, rank, exchange));
    return groups;
  };
  std::vector<MessageGroups> one_by_one = of_all_ranks(PipelineExchange::each);
  for (int sender = 0; sender < schedule.ranks; ++sender) {
    for (int receiver = 0; receiver < schedule.ranks; ++receiver)
      check.in_order = check.in_order && received_as_sent(one_by_one, sender, receiver);
  }
  check.sends_may_wait = all_are_taken(std::move(one_by_one));
  check.exchanges_may_wait = all_are_taken(of_all_ranks(PipelineExchange::with_next));
  check.pairs_may_wait = all_are_taken(of_all_ranks(PipelineExchange::in_pairs));
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

/// ZB-H1's: (p - 1) (F + B - W) of waiting next to m (F + B + W) of computing, F forward, B the input's gradient and W
/// the weights'. It holds for W at most F and at most B, and for at least as many micro-batches as ranks: otherwise a
/// rank has too much or too little to fill its waiting with. Source: P. Qi et al., table 2; the paper's ZB-H2, with
/// twice the micro-batches held, has (p - 1) (F + B - 2 W).
inline double zb_h1_idle_share_of(int ranks, int micro_batches, double forward = 1, double input = 1,
                                  double weights = 1) {
  const double bubble = (ranks - 1) * (forward + input - weights);
  return bubble / (micro_batches * (forward + input + weights) + bubble);
}

}  // namespace tenfold
