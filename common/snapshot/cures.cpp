#include "cures.h"

#include <algorithm>

#include "common/base/text.h"

namespace tenfold {
namespace {

std::string bytes(int64_t count) { return human_bytes(static_cast<double>(count)); }

bool is_worth_a_cure(int64_t excess, int64_t reserved) {
  return excess >= kExcessBytes && static_cast<double>(excess) >= kExcessShare * static_cast<double>(reserved);
}

/// The pieces would have been enough, had they lain together.
bool is_broken_up(const OutOfMemory& event) {
  return event.free_on_card < event.bytes && event.free_on_card + free_in_cache(event) >= event.bytes;
}

bool is_thrash(const Returns& returns) {
  return returns.calls.count >= kReturns &&
         static_cast<double>(returns.asked_again) >= kAskedAgain * static_cast<double>(returns.calls.bytes);
}

std::string most_often(const MemorySnapshot& snapshot, const Returns& returns) {
  const auto most = std::ranges::max_element(returns.places, {}, [](const auto& entry) { return entry.second; });
  return snapshot.places[most->first].name;
}

std::string returned_text(const Returns& returns) {
  return std::to_string(returns.calls.count) + " times the cache was given back, " + bytes(returns.calls.bytes) +
         " in all, and " + bytes(returns.asked_again) + " asked for again";
}

std::string why_none(const Replay& trace, int64_t excess) {
  if (!trace.out_of_memory.empty()) {
    const OutOfMemory& last = trace.out_of_memory.back();
    if (last.free_on_card >= last.bytes)
      return "the card had room for the request: a limit stopped it, such as set_per_process_memory_fraction()";
    return "all that was free in the cache, " + bytes(free_in_cache(last)) + ", and on the card, " +
           bytes(last.free_on_card) + ", is less than the request. Make the tensors smaller: lessons 31, 33, 44";
  }
  return "at their peaks reserved is " + bytes(std::max<int64_t>(0, excess)) +
         " more than the tensors need, and the cache is not given back again and again";
}

}  // namespace

int64_t free_in_cache(const OutOfMemory& event) { return std::max<int64_t>(0, event.reserved - event.requested); }

Advice advise(const MemorySnapshot& snapshot, const MemoryNow& now, const Replay* replayed) {
  Advice advice;
  if (!replayed) {
    advice.otherwise =
        "there is no trace, so that neither the peak nor driver calls are known: call "
        "torch.cuda.memory._record_memory_history() before the first step";
    return advice;
  }
  const Replay& trace = *replayed;
  if (!trace.fits) {
    advice.otherwise = "the trace does not lead to the segments: record one from the start of the program";
    return advice;
  }
  const int64_t rounding = now.allocated - now.requested;
  advice.excess = trace.reserved_peak - trace.requested_peak - rounding;
  const bool broken_up = std::ranges::any_of(trace.out_of_memory, is_broken_up);
  const bool excess = is_worth_a_cure(advice.excess, trace.reserved_peak);
  const bool expandable =
      snapshot.settings.expandable_segments ||
      std::ranges::any_of(snapshot.segments, [](const SnapshotSegment& segment) { return segment.expandable; });
  const bool varies = trace.new_sizes_late >= kNewSizes;
  const std::string peaks = "reserved rose to " + bytes(trace.reserved_peak) + ", tensors requested " +
                            bytes(trace.requested_peak) + " at most";
  const auto add = [&advice](const char* id, const std::string& what, const std::string& reason) {
    advice.cures.push_back({id, what, reason});
  };

  if (is_thrash(trace.by_empty_cache))
    add("less_empty_cache", "leave out empty_cache() in " + most_often(snapshot, trace.by_empty_cache),
        returned_text(trace.by_empty_cache));
  if ((excess || broken_up) && !expandable)
    add("expandable_segments", "PYTORCH_ALLOC_CONF=expandable_segments:True",
        broken_up
            ? "out of memory with " + bytes(free_in_cache(trace.out_of_memory.back())) + " free in pieces of the cache"
            : peaks);
  if ((excess || broken_up) && !expandable && varies &&
      static_cast<double>(trace.grown.bytes) >= kExcessShare * static_cast<double>(trace.reserved_peak))
    add("longest_first", "run the longest batch first, forward and backward, before the loop",
        bytes(trace.grown.bytes) + " in " + std::to_string(trace.grown.count) +
            " driver calls for lines that wanted more than ever before");
  if (excess && !expandable && varies && !snapshot.settings.rounds_sizes &&
      is_worth_a_cure(trace.reserved_peak - trace.rounded_peak, trace.reserved_peak))
    add("rounded_sizes", "or PYTORCH_ALLOC_CONF=roundup_power2_divisions:4, or pad lengths to a multiple",
        std::to_string(trace.new_sizes_late) +
            " sizes above 1 MiB came for the first time in the second half; rounded, "
            "tensors would request " +
            bytes(trace.rounded_peak) + " at most");
  if (is_thrash(trace.by_allocator) && !expandable && snapshot.settings.garbage_collection_threshold == 0)
    add("garbage_collection_threshold", "PYTORCH_ALLOC_CONF=garbage_collection_threshold:0.8",
        returned_text(trace.by_allocator) + ": the card was full");
  if (snapshot.settings.rounds_sizes && is_worth_a_cure(rounding, now.allocated))
    add("no_rounding", "leave out roundup_power2_divisions",
        bytes(rounding) + " of " + bytes(now.allocated) + " allocated were added by rounding");
  if (advice.cures.empty()) advice.otherwise = "nothing to cure: " + why_none(trace, advice.excess);
  return advice;
}

}  // namespace tenfold
