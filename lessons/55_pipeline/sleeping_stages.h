#pragma once
// The bubble of a schedule on more ranks than this machine has cores: stages sleep instead of computing, so that ranks
// do not take each other's core. Schedule, order of passes and messages are real.

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "common/measure/trial.h"
#include "common/ranks/rank_threads.h"
#include "pipeline.h"
#include "pipeline_check.h"

namespace tenfold::inline lesson_55 {

/// Of all the model's layers for one micro-batch, in ms.
struct SleptMs {
  double forward = 0, backward = 0;
};

/// Hands its input on after a sleep, and its gradient after another, or after a part of it: the weights' gradients,
/// which a store takes where there is one, have the rest.
struct SleepingStage : torch::autograd::Function<SleepingStage> {
  static void for_ms(double ms) {
    if (ms > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
  }
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& input, double forward_ms,
                               double backward_ms, const c10::intrusive_ptr<WeightGradStore>& store) {
    context->saved_data["backward_ms"] = backward_ms;
    if (store) context->saved_data["store"] = c10::IValue::make_capsule(store);
    for_ms(forward_ms);
    return input.clone();
  }
  static std::vector<torch::Tensor> backward(torch::autograd::AutogradContext* context,
                                             const std::vector<torch::Tensor>& gradients) {
    const double backward_ms = context->saved_data["backward_ms"].toDouble();
    const auto store = context->saved_data.find("store");
    const double weights_ms = store != context->saved_data.end() ? backward_ms * PassTimes().weights_share : 0;
    for_ms(backward_ms - weights_ms);
    if (weights_ms > 0) {
      c10::static_intrusive_pointer_cast<WeightGradStore>(store->second.toCapsule())->put([weights_ms] {
        for_ms(weights_ms);
      });
    }
    return {gradients[0], torch::Tensor(), torch::Tensor(), torch::Tensor()};
  }
};

/// Seconds that a run of the schedule takes, on ranks that are threads; the least of a few.
inline double slept_seconds(const PipelineSchedule& schedule, const SleptMs& whole_model, int runs = 3) {
  double least = 0;
  on_rank_threads(schedule.ranks, std::chrono::seconds(30), [&](int rank, const auto& group) {
    SleptMs each;  // of a stage; none in the first run, which connects the ranks
    const auto store = schedule.split ? c10::make_intrusive<WeightGradStore>() : nullptr;
    std::vector<Pipeline::Stage> stages;
    for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
      const bool is_last = schedule.stage_of(rank, chunk) + 1 == schedule.stages();
      stages.push_back([&each, is_last, store](const torch::Tensor& input, int) {
        const torch::Tensor begin = input.defined() ? input : torch::ones({1}).requires_grad_();
        const torch::Tensor result = SleepingStage::apply(begin, each.forward, each.backward, store);
        return is_last ? result.sum() : result;
      });
    }
    Pipeline pipeline(schedule, group, stages, {1}, torch::kFloat, store);
    pipeline.run();
    each = {whole_model.forward / schedule.stages(), whole_model.backward / schedule.stages()};
    for (int i = 0; i < runs; ++i) {
      thread_barrier(*group);
      const auto begin = std::chrono::steady_clock::now();
      pipeline.run();
      thread_barrier(*group);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      if (rank == 0) least = i == 0 ? took.count() : std::min(least, took.count());
    }
  });
  return least;
}

/// Notes what the schedule loses by formula, by its timeline and with sleeping stages, and what a rank holds.
inline void note_bubble(const Trial& trial, const PipelineSchedule& schedule, double formula) {
  constexpr SleptMs kModel{24, 48};  // of four ranks 6 and 12 each: messages take tenths of a ms
  const ScheduleCheck check = check_schedule(schedule);
  const double seconds = slept_seconds(schedule, kModel);
  const double busy = 1e-3 * (kModel.forward + kModel.backward) * schedule.micro_batches / schedule.ranks;
  const PipelineTimeline timeline = timeline_of(schedule, equal_stages(schedule, kModel.forward, kModel.backward));
  trial.note("idle, by the formula", 100 * formula, "%");
  trial.note("idle, by the timeline", 100 * timeline.idle_share(), "%");
  trial.note("idle, modelled by stages that sleep", 100 * (1 - busy / seconds), "%");
  const auto held = static_cast<double>(std::ranges::max(check.held));
  trial.note("most micro-batches held on a rank", held / schedule.chunks, "");
  int messages = 0;
  for (int rank = 0; rank < schedule.ranks; ++rank) messages += messages_of(schedule, rank);
  trial.note("messages of all ranks", messages, "");
  trial.note("hangs if each send is waited for", check.sends_may_wait ? 0 : 1, "");
  trial.note("hangs if each send is waited for with the next receive", check.exchanges_may_wait ? 0 : 1, "");
  trial.note("hangs if a forward and a backward exchange together", check.pairs_may_wait ? 0 : 1, "");
}

inline constexpr int kBubbleRanks = 4, kBubbleMicroBatches = 8, kBubbleChunks = 2;

inline void naive_bubble(const Trial& trial) {
  note_bubble(trial, naive_schedule(kBubbleRanks, kBubbleMicroBatches), (kBubbleRanks - 1.0) / kBubbleRanks);
}
inline void gpipe_bubble(const Trial& trial) {
  note_bubble(trial, gpipe_schedule(kBubbleRanks, kBubbleMicroBatches),
              idle_share_of(kBubbleRanks, kBubbleMicroBatches));
}
inline void one_f_one_b_bubble(const Trial& trial) {
  note_bubble(trial, one_f_one_b_schedule(kBubbleRanks, kBubbleMicroBatches),
              idle_share_of(kBubbleRanks, kBubbleMicroBatches));
}
inline void interleaved_bubble(const Trial& trial) {
  note_bubble(trial, interleaved_schedule(kBubbleRanks, kBubbleMicroBatches, kBubbleChunks),
              idle_share_of(kBubbleRanks, kBubbleMicroBatches, kBubbleChunks));
}
/// F, B and W take the same.
inline void zb_h1_bubble(const Trial& trial) {
  note_bubble(trial, zb_h1_schedule(kBubbleRanks, kBubbleMicroBatches),
              zb_h1_idle_share_of(kBubbleRanks, kBubbleMicroBatches));
}

}  // namespace tenfold::inline lesson_55
