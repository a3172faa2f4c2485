#pragma once
// The surveys of lesson 32: what the caching allocator asks of the driver, and how small a card may be.

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "caching_allocator.h"
#include "common/harness/lesson.h"
#include "common/measure/byte_budget.h"
#include "common/measure/memory.h"
#include "length_training.h"

namespace tenfold::inline lesson_32 {

inline constexpr Setting<double> kRoom{
    "room", 1.25, "of the survey 'driver calls': the card's bytes over those that tensors of full length request"};

/// On a CPU nothing lies between LibTorch and malloc: there is no cache to fragment.
inline void need_cache(const Trial& trial) {
  if (!trial.device.is_cuda()) trial.skip("needs a CUDA device: on a CPU nothing caches between LibTorch and malloc");
}

/// A way to train through the caching allocator.
struct Way {
  std::string name;
  std::function<Step(const Trial&)> build;
  std::string settings = "";  ///< of the allocator
};

// In the second round the longest batch has an optimizer state to lie beside, whatever the order.
inline constexpr int kUntilFull = 2, kManyRounds = 6;

/// Trains some rounds. Peaks are those of all of them, and what is stranded is the most after any; driver calls and
/// retries are those after kUntilFull rounds, when the cache could have all that it needs.
inline AllocatorCounts counts_of_rounds(const Trial& trial, const Way& way, int rounds) {
  release_cached_memory(trial.device);
  reset_peak(trial.device);
  const AllocatorSettings settings(way.settings);
  const Step step = way.build(trial);
  AllocatorCounts before;
  int64_t stranded = 0;
  for (int round = 0; round < rounds; ++round) {
    if (round == kUntilFull) before = allocator_counts(trial.device);
    step.update();
    stranded = std::max(stranded, allocator_counts(trial.device).stranded);
  }
  AllocatorCounts counts = allocator_counts(trial.device);
  counts.stranded = stranded;
  counts.driver_calls -= before.driver_calls;
  counts.retries -= before.retries;
  return counts;
}

/// On a card that is `room` times as large as what tensors of full length request: `full` has only such.
inline void note_driver_calls(const Trial& trial, const Way& full, const Way& way) {
  need_cache(trial);
  const auto requested = static_cast<double>(counts_of_rounds(trial, full, kUntilFull).requested_peak);
  release_cached_memory(trial.device);
  try {
    const ByteBudget budget(trial.device, static_cast<int64_t>(trial.get(kRoom) * requested));
    const AllocatorCounts counts = counts_of_rounds(trial, way, kManyRounds);
    const auto batches = static_cast<double>((kManyRounds - kUntilFull) * trial.get(kBatches));
    trial.note("driver calls a batch", static_cast<double>(counts.driver_calls) / batches, "");
    trial.note("retries a batch", static_cast<double>(counts.retries) / batches, "");
    trial.note("reserved", static_cast<double>(counts.reserved_peak), "bytes");
    trial.note("stranded", static_cast<double>(counts.stranded), "bytes");
    trial.note("rounded up", static_cast<double>(counts.allocated_peak - counts.requested_peak), "bytes");
    trial.note("out of memory", 0, "");
  } catch (const c10::OutOfMemoryError&) {
    trial.note("out of memory", 1, "");
  }
}

inline bool trains_in(const Trial& trial, const Way& way, int64_t bytes) {
  release_cached_memory(trial.device);
  try {
    const ByteBudget budget(trial.device, bytes);
    counts_of_rounds(trial, way, kUntilFull);
    return true;
  } catch (const c10::OutOfMemoryError&) {
    return false;
  }
}

/// The smallest card on which it still trains, to a hundredth of what its tensors request: between that and what it
/// reserves where there is room.
inline void note_least_card(const Trial& trial, const Way& way) {
  need_cache(trial);
  const AllocatorCounts with_room = counts_of_rounds(trial, way, kUntilFull);
  int64_t too_small = with_room.requested_peak - 1, enough = with_room.reserved_peak;
  while (enough - too_small > with_room.requested_peak / 100) {
    const int64_t middle = too_small + (enough - too_small) / 2;
    (trains_in(trial, way, middle) ? enough : too_small) = middle;
  }
  const auto requested = static_cast<double>(with_room.requested_peak);
  trial.note("least card", static_cast<double>(enough), "bytes");
  trial.note("least card / tensors", static_cast<double>(enough) / requested, "x");
  trial.note("reserved with room / tensors", static_cast<double>(with_room.reserved_peak) / requested, "x");
}

/// A look for each way; the last one is of full lengths.
inline std::vector<Look> driver_call_looks(const std::vector<Way>& ways) {
  std::vector<Look> looks;
  for (const Way& way : ways)
    looks.push_back({way.name, [full = ways.back(), way](const Trial& trial) { note_driver_calls(trial, full, way); }});
  return looks;
}

inline std::vector<Look> least_card_looks(const std::vector<Way>& ways) {
  std::vector<Look> looks;
  for (const Way& way : ways) looks.push_back({way.name, [way](const Trial& trial) { note_least_card(trial, way); }});
  return looks;
}

}  // namespace tenfold::inline lesson_32
