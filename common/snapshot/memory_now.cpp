#include <algorithm>
#include <set>

#include "replay.h"

namespace tenfold {
namespace {

/// What LibTorch maps at a time behind an expandable segment (c10/cuda/CUDACachingAllocator.cpp: kSmallBuffer,
/// kLargeBuffer). A segment of a snapshot begins with a page.
constexpr int64_t kSmallPage = 2 * kMiB, kLargePage = 20 * kMiB;

/// Bytes of a free block that the driver can have back while others of its segment are in use.
int64_t unmappable(const SnapshotSegment& segment, const SnapshotBlock& block) {
  if (!segment.expandable) return 0;
  const int64_t page = segment.small ? kSmallPage : kLargePage;
  const int64_t begin = block.address - segment.address, end = begin + block.bytes;
  return std::max<int64_t>(0, end / page * page - (begin + page - 1) / page * page);
}

void add_segment(MemoryNow& now, const SnapshotSegment& segment) {
  const bool in_use = std::ranges::any_of(
      segment.blocks, [](const SnapshotBlock& block) { return block.state != SnapshotBlock::State::FREE; });
  now.segments += 1;
  now.segments_in_use += in_use;
  now.reserved += segment.bytes;
  if (segment.of_graphs) now.of_graphs += segment.bytes;
  if (!in_use) {
    now.returnable += segment.bytes;
    return;
  }
  for (const SnapshotBlock& block : segment.blocks) {
    if (block.state != SnapshotBlock::State::FREE) {
      now.allocated += block.bytes;
      now.requested += block.requested;
      continue;
    }
    const int64_t back = unmappable(segment, block), kept = block.bytes - back;
    now.returnable += back;
    now.stranded += kept;
    if (kept == 0) continue;
    const auto* const end = std::ranges::find_if(kClassEnds, [kept](int64_t most) { return kept <= most; });
    now.stranded_by_class[end - std::begin(kClassEnds)].add(kept);
    now.largest_stranded = std::max(now.largest_stranded, kept);
  }
}

}  // namespace

MemoryNow memory_now(const MemorySnapshot& snapshot, int device) {
  MemoryNow now;
  for (const SnapshotSegment& segment : snapshot.segments) {
    if (segment.device == device) add_segment(now, segment);
  }
  return now;
}

std::vector<int> devices_of(const MemorySnapshot& snapshot) {
  std::set<int> devices;
  for (const SnapshotSegment& segment : snapshot.segments) devices.insert(segment.device);
  for (size_t i = 0; i < snapshot.traces.size(); ++i) {
    if (!snapshot.traces[i].empty()) devices.insert(static_cast<int>(i));
  }
  return {devices.begin(), devices.end()};
}

}  // namespace tenfold
