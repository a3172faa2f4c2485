#pragma once
// Looks at loops: false alarms, growth outside of tensors, what the watch costs, what a profiler records.

#include <malloc.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <vector>

#include "common/harness/lesson.h"
#include "common/measure/clock.h"
#include "common/result/statistics.h"
#include "leak_watch.h"
#include "loop.h"

namespace tenfold::inline lesson_04 {

inline constexpr Setting<int64_t> kWatched{"watched", 1000, "steps of a loop in which the watch looks for a leak"};

/// Switches oneDNN off until the next look: at a few images it takes longer to set up than to compute.
inline void prefer_small_steps() { at::globalContext().setUserEnabledMkldnn(false); }

/// When it was found, how much it is, and what allocated most of it.
inline void note_leak(const Trial& trial, const Leak& leak) {
  trial.note("found after", static_cast<double>(leak.step), "steps");
  trial.note("growth of a step", leak.bytes_per_step, "bytes");
  for (size_t i = 0; i < std::min<size_t>(2, leak.places.size()); ++i)
    trial.note(leak.places[i].name, leak.places[i].bytes_per_step, "bytes");
}

/// Watches a loop that has no leak.
inline void count_alarms(const Trial& trial, Update update) {
  prefer_small_steps();
  LeakWatch watch(trial.device);
  Loop loop(trial);
  int64_t alarms = 0;
  for (int64_t step = 0; step < trial.get(kWatched); ++step) {
    update(loop);
    if (watch.step()) ++alarms;
  }
  trial.note("steps watched", static_cast<double>(trial.get(kWatched)), "steps");
  trial.note("false alarms", static_cast<double>(alarms), "alarms");
}

/// Bytes that malloc has given out in this process, tensors and all else.
inline int64_t heap_bytes() {
  const auto info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

/// By how much the process's heap grows: a graph's nodes are no tensors.
inline void note_growth(const Trial& trial, Update update) {
  constexpr int64_t kSteps = 200;
  prefer_small_steps();
  Loop loop(trial);
  for (int64_t step = 0; step < 20; ++step) update(loop);
  const int64_t before = heap_bytes();
  for (int64_t step = 0; step < kSteps; ++step) update(loop);
  const auto grown = static_cast<double>(heap_bytes() - before);
  trial.note("heap grows by", grown / static_cast<double>(kSteps), "bytes a step");
}

/// The same steps with a watch and without, in turn.
inline void note_cost(const Trial& trial, Update update) {
  constexpr int kPairs = 24, kSteps = 40;
  prefer_small_steps();
  Loop loop(trial);
  const auto seconds = [&](bool watched) {
    std::optional<LeakWatch> watch;
    if (watched) watch.emplace(trial.device);
    const double all = time_block(trial.device, [&] {
      for (int step = 0; step < kSteps; ++step) {
        update(loop);
        if (watch) watch->step();
      }
    });
    // Of what one block leaves the next one frees nothing: LibTorch warns of blocks whose allocation nobody watched.
    loop.end_epoch();
    loop.optimizer->zero_grad();
    return all;
  };
  seconds(true);
  std::vector<double> ratios;
  for (int pair = 0; pair < kPairs; ++pair) {
    const bool first = pair % 2 == 0;
    const double one = seconds(first), other = seconds(!first);
    ratios.push_back(first ? one / other : other / one);
  }
  trial.note("a step with it / without", median(ratios), "x");
}

/// Allocations that LibTorch's profiler records of one training step.
inline void count_recorded(const Trial& trial, bool profile_memory) {
  using namespace torch::autograd::profiler;
  setenv("KINETO_LOG_LEVEL", "5", /*overwrite=*/0);  // NOLINT(concurrency-mt-unsafe): else it misses a GPU, as an error
  Loop loop(trial);
  const ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO, /*report_input_shapes=*/false,
                              profile_memory);
  const std::set<torch::profiler::impl::ActivityType> activities = {torch::profiler::impl::ActivityType::CPU};
  prepareProfiler(config, activities);
  enableProfiler(config, activities);
  const auto [images, labels] = loop.next_batch();
  loop.training_loss(images, labels).backward();
  const auto result = disableProfiler();
  const auto& events = result->events();
  const auto allocations =
      std::count_if(events.begin(), events.end(), [](const KinetoEvent& event) { return event.name() == "[memory]"; });
  trial.note("operators recorded", static_cast<double>(events.size() - static_cast<size_t>(allocations)), "events");
  trial.note("allocations recorded", static_cast<double>(allocations), "events");
}

/// As a widely read article looks for leaks: memory recording is off unless one asks for it.
inline void profiled_as_printed(const Trial& trial) { count_recorded(trial, false); }
inline void profiled_with_memory(const Trial& trial) { count_recorded(trial, true); }

}  // namespace tenfold::inline lesson_04
