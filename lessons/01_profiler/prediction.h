#pragma once
// What a profiler should cost: the events that it records, times what one event costs on operators that do nothing.

#include <vector>

#include "common/base/seconds_since.h"
#include "common/harness/lesson.h"
#include "common/measure/changed_step.h"
#include "common/measure/clock.h"
#include "common/result/statistics.h"
#include "profiled_training.h"
#include "step_profiler.h"
#include "trace_file.h"

namespace tenfold::inline lesson_01 {

/// Seconds that a profile takes, and how many events it has: of so many steps of this kind, started, stopped and saved.
struct Profiled {
  double seconds = 0;
  size_t events = 0;
};
inline Profiled profile(torch::Device device, ProfileOptions options, int64_t steps,
                        const std::function<void()>& step) {
  const TraceFile file;
  StepProfiler profiler(device, {.wait = 0, .warm_up = 0, .active = steps}, options, file.path());
  const double seconds = time_block(device, [&] {
    for (int64_t i = 0; i < steps; ++i) {
      profiler.begin_step();
      step();
      profiler.end_step();
    }
  });
  return {seconds, profiler.events()};
}

/// The added seconds of one profile, whatever it records, and of each event. From sums of two numbers: one operator,
/// with its inputs' shapes and its result's block of memory, where these are asked for.
struct PriceOfProfile {
  double start_and_stop = 0, event = 0;
};
inline PriceOfProfile price_of_profile(torch::Device device, ProfileOptions options) {
  constexpr int64_t kSums = 2000;
  const torch::Tensor number = torch::ones({1}, device);
  const auto sums = [&] {
    for (int64_t i = 0; i < kSums; ++i) number.add(number);
  };
  std::vector<double> alone, empty, events;
  for (int round = 0; round < 5; ++round) {
    alone.push_back(time_block(device, sums));
    empty.push_back(profile(device, options, 1, [] {}).seconds);
    const Profiled full = profile(device, options, 1, sums);
    events.push_back((full.seconds - alone.back() - empty.back()) / static_cast<double>(full.events));
  }
  return {median(empty), median(events)};
}

/// Events of one update: those of an MLP with as many layers. Its width does not matter, nor does its batch.
inline double events_of_update(const Counted& counted, ProfileOptions options) {
  Trial trial(std::make_shared<TrialRecord>());
  trial.device = counted.device;
  MlpTraining narrow(trial, {.layers = counted.get(mlp::kLayers), .width = 8}, /*batch=*/2);
  update(narrow);  // the first one makes the optimizer's state
  constexpr int64_t kUpdates = 4;
  return static_cast<double>(profile(counted.device, options, kUpdates, [&] { update(narrow); }).events) / kUpdates;
}

/// Of `recorded` updates in a window; 0: of all.
inline Prediction predict_profile(const Counted& alone, ProfileOptions options, int64_t recorded) {
  const PriceOfProfile price = price_of_profile(alone.device, options);
  const auto updates = static_cast<double>(recorded == 0 ? alone.get(kWindow) : recorded);
  const double added = price.start_and_stop + updates * events_of_update(alone, options) * price.event;
  return {.speed_ratio = speed_with(alone, added), .peak_bytes = alone.peak_bytes};
}

/// Of a schedule with these options.
inline auto scheduled_profile(ProfileOptions options) {
  return [options](const Counted& alone) { return predict_profile(alone, options, alone.get(kRecorded)); };
}

/// Of every update.
inline Prediction whole_profile(const Counted& alone) { return predict_profile(alone, {}, 0); }

/// Labels that nobody listens to: each asks whether somebody does, which a loop of nothing else times.
inline Prediction unheard_labels(const Counted& alone) {
  constexpr int64_t kLabels = 100'000;
  const double label = time_block(torch::kCPU,
                                  [] {
                                    for (int64_t i = 0; i < kLabels; ++i) {
                                      RECORD_USER_SCOPE("label");
                                    }
                                  }) /
                       static_cast<double>(kLabels);
  const auto labels = static_cast<double>(alone.get(kWindow) * labels_of_update(alone.get(mlp::kLayers)));
  return {.speed_ratio = speed_with(alone, labels * label), .peak_bytes = alone.peak_bytes};
}

}  // namespace tenfold::inline lesson_01
