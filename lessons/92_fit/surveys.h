#pragma once
// What lesson 92 counts without timing: the bytes by kind, in which pass a budget ends, and the largest model of a
// card.

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bytes_by_formula.h"
#include "common/harness/lesson.h"
#include "common/measure/byte_budget.h"
#include "common/measure/dry.h"
#include "common/measure/memory.h"
#include "common/result/lever_gains.h"
#include "fit_training.h"
#include "levers.h"
#include "settings.h"

namespace tenfold::inline lesson_92 {

inline constexpr int kUpdatesOfCount = 2;  // from the second one on all are alike

/// A stack of levers by its name, "+ checkpointing"; without any "all at once".
struct Stack {
  std::string name;
  size_t count;

  Levers levers_of(const Trial& trial) const { return possible_in(trial, stack_of(count)); }
};

inline std::vector<Stack> all_stacks() {
  std::vector<Stack> stacks = {{"all at once", 0}};
  for (size_t i = 0; i < kLevers.size(); ++i) stacks.push_back({stack_up_to(kLevers[i].name), i + 1});
  return stacks;
}

/// A device without bfloat16 has one lever less, as has a case without autocast.
inline void skip_where_nothing_changes(const Trial& trial, const Stack& stack) {
  if (stack.count == 0) return;
  const auto pulled = kLevers[stack.count - 1].pulled;
  if (pulled != &Levers::sixteen_bits) return;
  if (!trial.get(kAutocast)) trial.skip("autocast=false: all in 32 bits");
  if (!multiplies_bfloat16(trial.device))
    trial.skip("no instructions for bfloat16 here: on such a GPU fp16 with a scaler, lesson 21");
}

/// cuBLAS keeps its workspaces once it has them, and autograd's thread has its own; they are no lever's.
inline void warm_up(torch::Device device) {
  const Tensor square = torch::zeros({64, 64}, torch::dtype(torch::kFloat).device(device).requires_grad(true));
  torch::mm(square, square).sum().backward();
  synchronize(device);
}

/// On a card that computes nothing the host's update is left out: it frees and takes nothing there.
inline HostUpdate host_update(const Levers& levers) {
  return levers.averages_on_host && memory_only() ? HostUpdate::left_out : HostUpdate::runs;
}

/// One update, watched.
struct CountedUpdate {
  MemoryMoment moment;     ///< the highest, by kind; on CUDA in the caching allocator's blocks
  int64_t peak_bytes = 0;  ///< that tensors requested
};

inline CountedUpdate counted_update(const Trial& trial, const GptOptions& options, const Levers& levers) {
  const int64_t before = trial.device.is_cpu() ? 0 : live_bytes(trial.device);
  MemoryKinds watch(trial.device);
  FitTraining* made = nullptr;
  const auto enter = [&](Pass pass) {
    if (pass != Pass::input) return watch.begin(pass);
    watch.begin_step(made->parameter_list());
  };
  FitTraining training(trial, options, levers, enter, host_update(levers));
  made = &training;
  for (int update = 0; update < kUpdatesOfCount; ++update) {
    if (!trial.device.is_cpu()) reset_peak(trial.device);
    training.update();
  }
  const MemoryMoment moment = watch.end_step().peak();
  return {moment, trial.device.is_cpu() ? moment.total() : peak_bytes(trial.device) - before};
}

inline void note_moment(const Trial& trial, const MemoryMoment& moment, int64_t peak_bytes) {
  for (const MemoryKind kind : {MemoryKind::parameters, MemoryKind::optimizer_state, MemoryKind::gradients,
                                MemoryKind::activations, MemoryKind::temporary})
    trial.note(kMemoryKindNames[static_cast<size_t>(kind)], static_cast<double>(moment.of(kind)), "bytes");
  trial.note("peak", static_cast<double>(peak_bytes), "bytes");
}

inline Look counted_look(const Stack& stack) {
  return {stack.name, [stack](const Trial& trial) {
            skip_where_nothing_changes(trial, stack);
            trial.workload.make(trial);  // what the workload keeps for all, such as its text, is there from now on
            warm_up(trial.device);
            const Levers levers = stack.levers_of(trial);
            const CountedUpdate counted = counted_update(trial, gpt_options(trial), levers);
            note_moment(trial, counted.moment, counted.peak_bytes);
            const auto formula = static_cast<double>(StepBytes(step_sizes(trial), levers).peak().total());
            trial.note("counted over formula", 100 * (static_cast<double>(counted.peak_bytes) / formula - 1), "%");
          }};
}

inline Look predicted_look(const Stack& stack) {
  return {stack.name, [stack](const Trial& trial) {
            skip_where_nothing_changes(trial, stack);
            const MemoryMoment moment = StepBytes(step_sizes(trial), stack.levers_of(trial)).peak();
            note_moment(trial, moment, moment.total());
          }};
}

/// Two updates that may have so many bytes. Empty if they end; else the pass in which memory ran out.
inline std::optional<Pass> pass_that_exceeds(const Trial& trial, const GptOptions& options, const Levers& levers,
                                             int64_t bytes) {
  Pass current = Pass::input;
  const auto enter = [&](Pass pass) { current = pass; };
  std::optional<Pass> exceeded;
  release_cached_memory(trial.device);
  reset_peak(trial.device);
  {
    const ByteBudget budget(trial.device, bytes);
    try {
      FitTraining training(trial, options, levers, enter, host_update(levers));
      for (int update = 0; update < kUpdatesOfCount; ++update) training.update();
      synchronize(trial.device);
    } catch (const c10::OutOfMemoryError&) {
      exceeded = current;
    }
  }
  release_cached_memory(trial.device);
  return exceeded;
}

inline int64_t budget_bytes_of(const Trial& trial) {
  return StepBytes(step_sizes(trial), {}).peak().total() / 100 * trial.get(kBudget);
}

/// A line of survey "in a budget".
inline Look budget_look(const Stack& stack) {
  return {stack.name, [stack](const Trial& trial) {
            skip_where_nothing_changes(trial, stack);
            trial.workload.make(trial);
            warm_up(trial.device);
            const int64_t bytes = budget_bytes_of(trial);
            const Levers levers = stack.levers_of(trial);
            const auto exceeded = pass_that_exceeds(trial, gpt_options(trial), levers, bytes);
            trial.note("budget", static_cast<double>(bytes), "bytes");
            trial.note("needs, by formula", static_cast<double>(StepBytes(step_sizes(trial), levers).peak().total()),
                       "bytes");
            if (!exceeded && !trial.device.is_cpu())
              trial.note("reserved", static_cast<double>(peaks(trial.device).at("reserved")), "bytes");
            trial.note("fits", exceeded ? 0 : 1, "");
            if (exceeded == Pass::forward) trial.note("out of memory in forward", 1, "");
            if (exceeded == Pass::backward) trial.note("out of memory in backward", 1, "");
            if (exceeded == Pass::update) trial.note("out of memory in the update or its state", 1, "");
            if (exceeded == Pass::input) trial.note("out of memory before", 1, "");
          }};
}

/// Bytes for tensors on the trial's card. A GPU's context and its libraries take some, and the allocator's blocks do
/// not fill what they take from the driver.
inline int64_t card_bytes(const Trial& trial) {
  if (trial.device.is_cpu()) return trial.get(kCardMebibytes) << 20;
  return device_memory_bytes(trial.device) - (int64_t{1} << 30);
}

/// The most layers whose step the formula finds to fit; 0 if none.
inline int64_t layers_by_formula(StepSizes sizes, const Levers& levers, int64_t bytes) {
  const auto fit = [&](int64_t layers) {
    sizes.model.layers = layers;
    return StepBytes(sizes, levers).peak().total() <= bytes;
  };
  int64_t fits = 0, exceeds = 1;
  while (fit(exceeds)) fits = exceeds, exceeds *= 2;
  while (exceeds - fits > 1) {
    const int64_t middle = fits + (exceeds - fits) / 2;
    (fit(middle) ? fits : exceeds) = middle;
  }
  return fits;
}

/// A line of survey "largest model": the most layers that train in the card's memory, by formula, and by training two
/// updates from there on. Of narrow layers a card holds more than the host can build.
inline Look largest_look(const Stack& stack) {
  return {stack.name, [stack](const Trial& trial) {
            skip_where_nothing_changes(trial, stack);
            const Levers levers = stack.levers_of(trial);
            if (levers.averages_on_host && trial.device.is_cpu())
              trial.skip("a CPU has no second memory: what leaves is in the same");
            if (!trial.device.is_cpu() && !memory_only())
              trial.skip("draws billions of weights: on a CPU, or by ./tenfold run 92 --device dry:H100");
            warm_up(trial.device);
            const int64_t bytes = card_bytes(trial), predicted = layers_by_formula(step_sizes(trial), levers, bytes);
            if (predicted > 1000) trial.skip("layers this narrow fit by the thousand: widen them with --width");
            GptOptions options = gpt_options(trial);
            const auto fits = [&](int64_t layers) {
              options.layers = layers;
              return layers == 0 || !pass_that_exceeds(trial, options, levers, bytes);
            };
            int64_t layers = predicted;
            if (fits(layers)) {
              while (fits(layers + 1)) ++layers;
            } else {
              do {
                --layers;
              } while (!fits(layers));
            }
            options.layers = layers;
            trial.note("layers by formula", static_cast<double>(predicted), "");
            trial.note("layers", static_cast<double>(layers), "");
            trial.note("parameters", static_cast<double>(parameter_bytes(options)) / 4e6, "million");
          }};
}

inline std::vector<Look> looks_of(Look (*look)(const Stack&)) {
  std::vector<Look> looks;
  for (const Stack& stack : all_stacks()) looks.push_back(look(stack));
  return looks;
}

}  // namespace tenfold::inline lesson_92
