#pragma once
// What the pages 00 to 04 would show of the program, as numbers; and the hunt for a NaN.

#include <functional>
#include <optional>
#include <vector>

#include "common/harness/lesson.h"
#include "common/measure/clock.h"
#include "common/measure/memory.h"
#include "common/result/statistics.h"
#include "nan_hunt.h"
#include "program.h"
#include "step_census.h"

namespace tenfold::inline lesson_05 {

/// Counts one epoch by its scopes. The second: in the first, optimizer state comes.
inline std::function<void(const Trial&)> counts_of(const Planted& planted) {
  return [planted](const Trial& trial) {
    if (!trial.device.is_cpu()) trial.skip("counts bytes on the CPU");
    const CountCpuMemory count;
    Program program(trial);
    const int64_t updates = trial.get(kUpdates);
    epoch(program, updates, planted);
    reset_peak(trial.device);
    CensusTaker taker;
    epoch(program, updates, planted);
    const Census& census = taker.census();
    const auto per_update = [&](int64_t number) { return static_cast<double>(number) / static_cast<double>(updates); };
    trial.note("numbers written by normalising", static_cast<double>(census.of("normalise").elements), "numbers");
    trial.note("forward passes", per_update(census.of("forward").forwards + census.of("count").forwards), "per update");
    trial.note("reads by the host", per_update(census.of("count").reads), "per update");
    trial.note("image gradients", per_update(census.image_gradients), "per update");
    trial.note("an update leaves", static_cast<double>(Census::growth(census.of("data").live)), "bytes");
    trial.note("a held-out batch leaves", static_cast<double>(Census::growth(census.of("validation").live_at_forward)),
               "bytes");
  };
}

/// The same updates with the watch and without, in turn.
inline void note_watch_cost(const Trial& trial) {
  constexpr int kPairs = 3;
  Program program(trial);
  const auto seconds = [&](bool watched) {
    std::optional<FiniteWatch> watch;
    if (watched) watch.emplace();
    return time_block(trial.device, [&] { epoch(program, 1, {}); });
  };
  seconds(true);
  std::vector<double> ratios;
  for (int pair = 0; pair < kPairs; ++pair) {
    const bool first = pair % 2 == 0;
    const double one = seconds(first), other = seconds(!first);
    ratios.push_back(first ? one / other : other / one);
  }
  trial.note("an update with it / without", median(ratios), "x");
}

/// 1 when the watch names the operator that the loss was broken with.
inline void hunt_forward(const Trial& trial) {
  Program program(trial);
  const auto [images, labels] = next_batch(program, {});
  FiniteWatch watch;
  log_of_softmax(program.model(images) * 1e4);
  trial.note("named aten::log", watch.first() == "aten::log" ? 1 : 0, "of 1");
}

/// Anomaly mode warns on standard error, too.
struct NoWarnings : c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

/// The loss is finite; anomaly mode names the node whose gradient is not.
inline void hunt_backward(const Trial& trial) {
  Program program(trial);
  const auto [images, labels] = next_batch(program, {});
  const torch::Tensor loss = distance_of_equals(program.model(images));
  NoWarnings quiet;
  const c10::WarningUtils::WarningHandlerGuard silent(&quiet);
  trial.note("the loss is finite", torch::isfinite(loss).item<bool>() ? 1 : 0, "of 1");
  trial.note("named a node", anomaly_of(loss).empty() ? 0 : 1, "of 1");
}

}  // namespace tenfold::inline lesson_05
