// How much memory a step takes, and what else a dry GPU counts of it.
#include <ATen/record_function.h>

#include <atomic>
#include <cstring>

#include "common/harness/passes.h"
#include "common/measure/dry.h"
#include "common/measure/memory.h"
#include "common/measure/timeline.h"
#include "common/result/dry_counted.h"

namespace tenfold {
namespace {

/// The operator, seen since watching began, whose results are as large as values say; nullptr without one.
std::atomic<const char*> sized_by_values{nullptr};

std::unique_ptr<at::ObserverContext> look_for_sizes(const at::RecordFunction& function) {
  for (const char* const name : {"aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_dim",
                                 "aten::unique_consecutive", "aten::bincount", "aten::repeat_interleave"}) {
    if (std::strcmp(function.name(), name) == 0) sized_by_values = name;
  }
  return nullptr;
}

/// What a dry GPU was asked for in each of so many steps, besides memory.
void note_dry_counts(VariantResult& result, const DryCounts& before, int steps) {
  const DryCounts after = dry_counts();
  const auto note = [&](const char* name, int64_t DryCounts::* count) {
    result.counted[name] = static_cast<double>(after.*count - before.*count) / steps;
  };
  note(kLaunches, &DryCounts::launches);
  note(kGraphLaunches, &DryCounts::graph_launches);
  note(kHostWaits, &DryCounts::waits);
  note(kCopies, &DryCounts::copies);
  note(kBytesToDevice, &DryCounts::bytes_to_device);
  note(kBytesToHost, &DryCounts::bytes_to_host);
  note(kBytesPageable, &DryCounts::bytes_pageable);
  result.counted[kSideStreams] = static_cast<double>(after.side_streams);  // of the process: first used long before
  if (after.unknown_workspaces > before.unknown_workspaces) result.environment[kPeakAtLeast] = "cuDNN's workspaces";
}

}  // namespace

void priming_pass(PartRun& run) {
  const struct Watch {
    at::CallbackHandle handle =
        at::addGlobalCallback(at::RecordFunctionCallback(&look_for_sizes).scopes({at::RecordScope::FUNCTION}));
    ~Watch() { at::removeCallback(handle); }
  } watch;
  for (Candidate& candidate : run.candidates) {
    if (!candidate.ok()) continue;
    run.stop_if_interrupted();
    run.progress.at(0.1, "first step: " + candidate.name);
    sized_by_values = nullptr;
    const auto first_step = [&] {
      const Step step = run.build(candidate);
      step.update();
      synchronize(run.device);
    };
    run.guarded(candidate, [&] {
      // What it did with a size that is no number, a failure too, says nothing.
      const auto skip = [] {
        throw Skipped("its memory depends on values (" + std::string(sized_by_values) + "), and none are computed");
      };
      try {
        first_step();
      } catch (const c10::Error&) {
        if (sized_by_values == nullptr) throw;
        skip();
      }
      if (sized_by_values != nullptr) skip();
    });
  }
}

namespace {

std::map<std::string, int64_t> remote_peak(TrainingProcess& process, Candidate& candidate) {
  std::optional<RemoteMemory> remote = process.memory();
  if (!remote) {
    candidate.result.environment["memory"] = "not counted: another program runs it, which does not count any";
    return {};
  }
  candidate.resting_bytes = remote->resting_bytes;
  candidate.result.timeline = std::move(remote->timeline);
  candidate.result.counted.insert(remote->counted.begin(), remote->counted.end());
  candidate.has_threads = process.has_threads();
  const auto& stated = process.environment();
  if (const auto at_least = stated.find(kPeakAtLeast); at_least != stated.end())
    candidate.result.environment.insert(*at_least);
  return std::move(remote->peak_bytes);
}

}  // namespace

std::map<std::string, int64_t> measured_peak(PartRun& run, Candidate& candidate) {
  if (const auto process = run.process_of(candidate)) return remote_peak(*process, candidate);
  const CountCpuMemory counting;
  const MemoryWatch memory(run.devices());
  const int64_t before = live_bytes(run.device);
  const Step step = run.build(candidate);
  for (const torch::Device device : run.devices()) release_cached_memory(device);  // what only building needed
  for (int warm = 0; warm < 2; ++warm) step.update();
  synchronize(run.device);
  candidate.resting_bytes = memory.live_bytes();
  candidate.has_threads = step.park != nullptr;
  const bool dry = run.on_dry_gpu();
  if (!dry) candidate.result.timeline = memory_timeline(run.device, step, before);
  synchronize(run.device);
  memory.reset_peaks();
  const DryCounts counts = dry_counts();
  constexpr int kMeasured = 2;
  for (int measured = 0; measured < kMeasured; ++measured) {
    run.groups.restart();  // the last step's requests stay: by then buckets are where they will be
    step.update();
  }
  if (dry) note_dry_counts(candidate.result, counts, kMeasured);
  synchronize(run.device);
  return memory.peaks();
}

void memory_pass(PartRun& run) {
  for (size_t i = 0; i < run.candidates.size(); ++i) {
    Candidate& candidate = run.candidates[i];
    if (!candidate.ok()) continue;
    run.stop_if_interrupted();
    run.progress.at(0.2 + 0.1 * static_cast<double>(i) / static_cast<double>(run.candidates.size()),
                    "memory: " + candidate.name);
    if (!run.guarded(candidate, [&] { candidate.result.peak_bytes = measured_peak(run, candidate); })) continue;
    for (auto& [kind, bytes] : candidate.result.peak_bytes)
      bytes = static_cast<int64_t>(run.world.max(static_cast<double>(bytes)));
    for (const auto& [collective, requests] : run.groups.most_requests(run.mesh)) {
      if (requests.bytes > 0) candidate.result.sent_bytes[collective] = requests.bytes;
      candidate.result.counted["calls of " + collective] = static_cast<double>(requests.calls);
    }
  }
}

}  // namespace tenfold
