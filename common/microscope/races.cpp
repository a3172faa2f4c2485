// Finds two accesses to one word, at least one a write, that nothing orders. Orders are: one thread's own sequence; a
// __syncthreads between two threads of a block; a __syncwarp between two lanes of a warp; launches of a stream; and a
// fence plus an atomic on one side with the same atomic on the other between blocks. Shuffles order no memory.
#include "common/microscope/engine.h"

#include <algorithm>
#include <bit>

namespace tenfold::simt {
namespace {

bool ordered(const Stamp& before, Space space) {
  if (before.block < engine.first_block) return true;  // nobody, or an earlier launch
  const Thread& now = *engine.current;
  if (before.block == engine.block_number) {
    if (before.barrier == Stamp::kInFlight) return false;
    if (before.thread == now.number || before.barrier < engine.barrier) return true;
    if (before.thread / 32 != now.number / 32) return false;
    const Warp& warp = *engine.current_warp;
    return before.warp_sync <
           (warp.lanes == nullptr ? warp.sync : warp.lanes->known[now.number % 32][before.thread % 32]);
  }
  if (space == Space::shared) return true;  // another block's shared memory is other memory
  for (const std::vector<Release>* releases : engine.acquired) {
    const size_t block = before.block - engine.first_block;
    if (block >= releases->size() || !(*releases)[block].done) continue;
    const Release& release = (*releases)[block];
    if (before.barrier < release.barrier || (before.thread == release.thread && before.barrier == release.barrier))
      return true;
  }
  return false;
}

ThreadId thread_id(uint32_t block, uint16_t thread) {
  const dim3 g = engine.grid, b = engine.block;
  const uint32_t at = block - engine.first_block;
  return {{at % g.x, at / g.x % g.y, at / g.x / g.y}, {thread % b.x, thread / b.x % b.y, thread / b.x / b.y}};
}

void note_race(const Region& region, uintptr_t address, const Stamp& before, Kind kind, uint16_t site) {
  auto& state = *engine.state;
  const auto first = static_cast<uint16_t>(before.site & ~Stamp::kAtomic);
  Race& race = state.races[{first, site, region.index}];
  if (race.count++ != 0) return;
  race.space = region.space;
  race.in_flight = before.barrier == Stamp::kInFlight;
  race.first_kind = state.sites[first].kind;
  race.second_kind = kind;
  race.first = where_is(state.sites[first].pc);
  race.second = where_is(state.sites[site].pc);
  if (region.space == Space::global) race.buffer = region.name;
  race.offset = static_cast<int64_t>(address - region.low);
  race.first_thread = thread_id(before.block, before.thread);
  race.second_thread = thread_id(engine.block_number, engine.current->number);
}

}  // namespace

void check_race(Region& region, uintptr_t address, int bytes, Kind kind, uint16_t site) {
  if (bytes < 1 << region.granule_shift) {  // shared memory has no element type: the first narrow access tells
    region.granule_shift = bytes == 1 ? 0 : 1;
    region.shadow.reset(0);
  }
  if (region.shadow.size() == 0) region.shadow.reset(((region.high - region.low) >> region.granule_shift) + 1);
  Thread& now = *engine.current;
  const bool atomic = kind == Kind::atomic;
  const Stamp stamp{engine.block_number, engine.barrier, engine.current_warp->now(now.number % 32), now.number,
                    static_cast<uint16_t>(site | (atomic ? Stamp::kAtomic : 0))};
  if (kind == Kind::store && region.space == Space::global) now.fenced = false;
  const uintptr_t first = (address - region.low) >> region.granule_shift;
  const uintptr_t last = (address + static_cast<uintptr_t>(bytes) - 1 - region.low) >> region.granule_shift;
  for (uintptr_t word = first; word <= last; ++word) {
    Shadow& shadow = region.shadow.begin()[word];
    const auto conflict = [&](const Stamp& before) {
      if (!ordered(before, region.space))
        note_race(region, region.low + (word << region.granule_shift), before, kind, site);
    };
    if (!(atomic && (shadow.write.site & Stamp::kAtomic) != 0)) conflict(shadow.write);
    if (kind == Kind::load) {
      // The second place always holds the latest reader that is not the first one.
      const bool first_free = ordered(shadow.reads[0], region.space);
      shadow.reads[first_free ? 0 : 1] = stamp;
    } else {
      for (Stamp& read : shadow.reads) {
        conflict(read);
        read = {};
      }
      shadow.write = stamp;
    }
  }
}

namespace {

void stamp_copy(Region& region, const Copy& copy, uint32_t barrier) {
  const Thread& now = *engine.current;
  const Stamp stamp{engine.block_number, barrier, engine.current_warp->now(now.number % 32), now.number, copy.site};
  const uintptr_t begin = reinterpret_cast<uintptr_t>(copy.to) - region.low,
                  end = begin + static_cast<uintptr_t>(copy.bytes);
  const uintptr_t last = (end - 1) >> region.granule_shift;
  for (uintptr_t word = begin >> region.granule_shift; word <= last; ++word) region.shadow.begin()[word] = {stamp, {}};
}

}  // namespace

void copy_begins(Region& region, const Copy& copy) {
  check_race(region, reinterpret_cast<uintptr_t>(copy.to), copy.bytes, Kind::store, copy.site);
  stamp_copy(region, copy, Stamp::kInFlight);
}

void copy_lands(Region& region, const Copy& copy) { stamp_copy(region, copy, engine.barrier); }

void publish_and_learn(uintptr_t address) {
  auto& releases = engine.releases[address];
  if (engine.current->fenced) {
    const size_t block = engine.block_number - engine.first_block;
    if (releases.size() <= block) releases.resize(block + 1);
    releases[block] = {engine.barrier, engine.current->number, true};
  }
  for (const auto* known : engine.acquired) {
    if (known == &releases) return;
  }
  engine.acquired.push_back(&releases);
}

void synchronise_lanes(Warp& warp, uint32_t group, uint32_t live) {
  if (group == live) {  // all that are left: one clock for everybody again
    if (warp.lanes != nullptr) warp.sync = *std::max_element(warp.lanes->own.begin(), warp.lanes->own.end());
    warp.lanes.reset();
    ++warp.sync;
    return;
  }
  if (warp.lanes == nullptr) {
    warp.lanes = std::make_unique<LaneClocks>();
    warp.lanes->own.fill(warp.sync);
    for (auto& of_lane : warp.lanes->known) of_lane.fill(warp.sync);
  }
  LaneClocks& clocks = *warp.lanes;
  std::array<uint32_t, 32> known{};
  for (uint32_t left = group; left != 0; left &= left - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(left));
    for (size_t other = 0; other < 32; ++other) known[other] = std::max(known[other], clocks.known[lane][other]);
    known[lane] = ++clocks.own[lane];
  }
  for (uint32_t left = group; left != 0; left &= left - 1)
    clocks.known[static_cast<size_t>(std::countr_zero(left))] = known;
}

}  // namespace tenfold::simt
