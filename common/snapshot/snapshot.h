#pragma once
// What PyTorch's caching allocator says of itself: torch.cuda.memory._dump_snapshot() in Python,
// torch::cuda::_memory_snapshot_pickled() in C++. Format: PyTorch 2.11, torch/cuda/memory.py, _snapshot().

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "document.h"

namespace tenfold {

/// Where the program asked: the innermost line of its own among a stack's frames.
struct Place {
  std::string name;            ///< "model/train.py:12 step"; "backward pass"
  bool empties_cache = false;  ///< the stack is that of empty_cache()
};

/// The place of what was recorded without a stack, and of what the trace frees and did not allocate.
inline constexpr uint32_t kNoPlace = 0, kBeforeTrace = 1;

struct SnapshotBlock {
  enum class State : uint8_t { FREE, IN_USE, AWAITING_FREE };  ///< the last: another stream may still use it
  State state = State::FREE;
  uint32_t place = kNoPlace;
  int64_t address = 0, bytes = 0;
  int64_t requested = 0;  ///< 0 of a free one
};

struct SnapshotSegment {
  int device = 0;
  int64_t address = 0, bytes = 0;
  bool small = false;  ///< of the pool for requests of at most 1 MiB
  bool expandable = false;
  bool of_graphs = false;             ///< of a pool apart, such as a CUDA graph's
  std::vector<SnapshotBlock> blocks;  ///< by address
};

enum class AllocatorAction : uint8_t {
  ALLOC,
  FREE_COMPLETED,
  SEGMENT_ALLOC,
  SEGMENT_FREE,
  SEGMENT_MAP,
  SEGMENT_UNMAP,
  OUT_OF_MEMORY
};

struct AllocatorEvent {
  AllocatorAction action = AllocatorAction::ALLOC;
  uint32_t place = kNoPlace;
  int64_t address = 0;  ///< of OUT_OF_MEMORY: bytes that were free on the card
  int64_t bytes = 0;    ///< as requested; of segments, as taken
  int64_t time_us = 0;  ///< 0: not recorded
};

struct AllocatorSettings {
  bool known = false;
  bool expandable_segments = false;
  bool rounds_sizes = false;
  double garbage_collection_threshold = 0;
};

struct MemorySnapshot {
  std::vector<SnapshotSegment> segments;
  std::vector<std::vector<AllocatorEvent>> traces;  ///< for each device; empty where no history was recorded
  std::vector<Place> places;                        ///< the first two are kNoPlace and kBeforeTrace
  AllocatorSettings settings;
};

/// Throws FileError (files.h), "FILE: what is wrong".
MemorySnapshot read_snapshot(const std::filesystem::path& file);

/// The same of what such a file holds, a pickle or JSON. Throws SnapshotError.
MemorySnapshot parse_snapshot(std::string_view bytes);

/// Of a tree that was read. Throws SnapshotError, "segments[3].blocks[1].size: is missing".
MemorySnapshot snapshot_of(const Document& document);

}  // namespace tenfold
