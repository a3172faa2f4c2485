// Asynchronous copies from global to shared memory (cp.async). On a GPU the data come at any time between the start of
// a copy and its wait. Here they come as late as they may, at the wait; and every access in between is a race.
#include <algorithm>
#include <cstring>

#include "common/microscope/engine.h"

namespace tenfold::simt {

void copy_async(void* shared, const void* global, int bytes, int source_bytes) {
  Thread& thread = *engine.current;
  const auto pc = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  const auto key = static_cast<uint64_t>(pc) << 8;
  const auto to = reinterpret_cast<uintptr_t>(shared), from = reinterpret_cast<uintptr_t>(global);
  Region* const target = region_of(to);
  if (target == nullptr || target->space != Space::shared) {
    return note_fault(FaultKind::out_of_bounds, pc, "an asynchronous copy goes to memory that is not shared");
  }
  if (source_bytes < 0 || source_bytes > bytes) {
    return note_fault(FaultKind::out_of_bounds, pc,
                      "an asynchronous copy of " + std::to_string(bytes) + " bytes takes " +
                          std::to_string(source_bytes) + " from its source");
  }
  if (!in_bounds(*target, to, bytes, pc)) return;
  require_aligned(to, bytes, pc);
  if (source_bytes != 0) {
    Region* const source = region_of(from);
    if (source == nullptr || source->space != Space::global) {
      return note_fault(FaultKind::out_of_bounds, pc, "an asynchronous copy comes from memory that is no buffer");
    }
    if (!in_bounds(*source, from, source_bytes, pc)) return;
    require_aligned(from, bytes, pc);
    const Site& site =
        count_lane(*source, from, bytes, Kind::load, key, pc);  // aligned, so that a part of it is the same sector
    if (engine.state->options.races) check_race(*source, from, source_bytes, Kind::load, site.index);
  }
  const Site& site = count_lane(*target, to, bytes, Kind::store, key | 1, pc);
  thread.copies.push_back({shared, global, bytes, source_bytes, thread.groups, site.index});
  if (engine.state->options.races) copy_begins(*target, thread.copies.back());
}

void commit_copies() { ++engine.current->groups; }

void wait_for_copies(int newest) {
  Thread& thread = *engine.current;
  const auto left = std::find_if(thread.copies.begin(), thread.copies.end(), [&](const Copy& copy) {
    return copy.group + static_cast<uint32_t>(newest) >= thread.groups;
  });
  std::for_each(thread.copies.begin(), left, [](const Copy& copy) {
    if (copy.source_bytes != 0) std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.source_bytes));
    std::memset(static_cast<std::byte*>(copy.to) + copy.source_bytes, 0,
                static_cast<size_t>(copy.bytes - copy.source_bytes));
    if (engine.state->options.races) copy_lands(*region_of(reinterpret_cast<uintptr_t>(copy.to)), copy);
  });
  thread.copies.erase(thread.copies.begin(), left);
}

}  // namespace tenfold::simt
