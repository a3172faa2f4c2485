#pragma once
// What a snapshot says of one device: its memory when it was written, and its trace, followed from the first event.

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include "snapshot.h"

namespace tenfold {

struct Amount {
  int64_t count = 0, bytes = 0;
  void add(int64_t more) {
    ++count;
    bytes += more;
  }
};

/// Classes of the sizes of free blocks: up to and with so many bytes; the last has no end.
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kClassEnds[] = {kMiB, 10 * kMiB, 100 * kMiB, 1024 * kMiB, INT64_MAX};
inline constexpr size_t kClasses = std::size(kClassEnds);

/// The memory when the snapshot was written.
struct MemoryNow {
  int64_t reserved = 0, allocated = 0, requested = 0;
  int64_t returnable = 0;  ///< what empty_cache() would give back to the driver
  int64_t stranded = 0;    ///< free, and not returnable: a block in use keeps its segment
  int64_t of_graphs = 0;   ///< of reserved: in pools apart, such as CUDA graphs'
  int64_t segments = 0, segments_in_use = 0;
  Amount stranded_by_class[kClasses];
  int64_t largest_stranded = 0;
};

/// What the blocks of one line held at the peak.
struct Holder {
  uint32_t place = kNoPlace;
  Amount held;
};

struct OutOfMemory {
  uint32_t place = kNoPlace;
  int64_t bytes = 0, free_on_card = 0;
  int64_t requested = 0, reserved = 0;  ///< then
};

/// Driver calls in one part of the trace.
struct Window {
  double begin_s = 0, end_s = 0;  ///< since the first event; both 0 where no times were recorded
  Amount taken, given_back;       ///< segment_alloc and segment_map; segment_free and segment_unmap
  int64_t reserved_peak = 0, requested_peak = 0;
};

/// Whole runs of segment_free, and what the driver was asked for again after the first of them.
struct Returns {
  Amount calls;  ///< runs; their bytes
  int64_t asked_again = 0;
  std::map<uint32_t, int64_t> places;  ///< runs by the line that asked
};

struct Replay {
  int64_t events = 0;
  bool fits = true;  ///< the trace and the segments tell the same; else what was there at first is unknown
  int64_t requested_at_start = 0, reserved_at_start = 0;
  int64_t requested_peak = 0, reserved_peak = 0;
  double peak_s = 0, seconds = 0;
  std::vector<Holder> holders;  ///< at the peak of requested, largest first
  std::vector<OutOfMemory> out_of_memory;
  std::vector<Window> windows;
  Returns by_empty_cache, by_allocator;  ///< the second: the card was full, or garbage collection
  Amount taken, given_back;
  Amount taken_late;  ///< in the second half of the allocations
  /// Sizes above 1 MiB that came for the first time in the second half of the allocations.
  int64_t new_sizes_late = 0;
  /// Segments for a line that wanted more than ever before, though it had freed some; after the first tenth of the
  /// allocations.
  Amount grown;
  /// The peak of requested, had LibTorch rounded each size up to a quarter of a power of two.
  int64_t rounded_peak = 0;
};

MemoryNow memory_now(const MemorySnapshot& snapshot, int device);

/// Nothing where no history was recorded for the device.
std::optional<Replay> replay(const MemorySnapshot& snapshot, int device);

/// Devices with a segment or an event, in their order.
std::vector<int> devices_of(const MemorySnapshot& snapshot);

}  // namespace tenfold
