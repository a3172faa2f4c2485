// Finds two accesses to one word, at least one a write, that nothing orders. Orders are: one thread's own sequence; a
// __syncthreads between two threads of a block; a __syncwarp between two lanes of a warp; an mbarrier between who
// arrives and who has waited; launches of a stream; and a fence plus an atomic on one side with the same atomic on the
// other between blocks. Shuffles order no memory. Who waited for a phase or for a group of wgmma knows what agents did
// in it. The blocks of a cluster know of each other through mbarriers and the cluster's barrier.
#include "common/microscope/engine.h"
#include "common/microscope/hopper.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace tenfold::simt {
namespace {

bool is_agent(const Stamp& stamp) { return stamp.thread >= engine.first_agent; }

bool ordered(const Stamp& before, Space space) {
  if (before.block < engine.first_block) return true;  // nobody, or an earlier launch
  const Thread& now = *engine.current;
  if (before.block == engine.block_number) {
    if (before.barrier == Stamp::kInFlight) return false;
    if (is_agent(before)) {
      const Clock& known = now.asynchronous.known;
      return before.warp_sync < std::max(at(known, before.thread), at(engine.block_known, before.thread));
    }
    if (before.thread == now.number || before.barrier < engine.barrier) return true;
    if (before.warp_sync < at(now.asynchronous.known, before.thread)) return true;
    if (before.thread / 32 != now.number / 32) return false;
    return before.warp_sync < engine.current_warp->known(now.number % 32, before.thread % 32);
  }
  if (before.block - engine.first_of_cluster < engine.cluster.size()) {  // by a peer
    if (before.barrier == Stamp::kInFlight) return false;
    const Clock& known = now.asynchronous.known;
    if (before.warp_sync < std::max(at(known, before.thread), at(engine.block_known, before.thread))) return true;
    if (space == Space::shared) return false;
  }
  if (space == Space::shared) return true;  // the shared memory of a block that is gone was other memory
  for (const std::vector<Release>* releases : engine.acquired) {
    const size_t block = before.block - engine.first_block;
    if (block >= releases->size() || !(*releases)[block].done) continue;
    const Release& release = (*releases)[block];
    if (before.barrier < release.barrier || (before.thread == release.thread && before.barrier == release.barrier))
      return true;
  }
  return false;
}

bool in_flight(const Stamp& before) {
  if (before.barrier == Stamp::kInFlight) return true;
  return is_agent(before) && before.warp_sync >= engine.agents[before.thread - engine.first_agent].done;
}

ThreadId thread_id(uint32_t block, uint16_t thread) {
  if (thread >= engine.first_agent) thread = engine.agents[thread - engine.first_agent].thread;
  const dim3 g = engine.grid, b = engine.block;
  const uint32_t at = block - engine.first_block;
  const auto of_block = static_cast<uint32_t>(thread % engine.apart);
  return {{at % g.x, at / g.x % g.y, at / g.x / g.y}, {of_block % b.x, of_block / b.x % b.y, of_block / b.x / b.y}};
}

void note_race(const Region& region, uintptr_t address, const Stamp& before, Kind kind, uint16_t site) {
  auto& state = *engine.state;
  const auto first = static_cast<uint16_t>(before.site & ~Stamp::kAtomic);
  Race& race = state.races[{first, site, region.index}];
  if (race.count++ != 0) return;
  race.space = region.space;
  race.in_flight = in_flight(before);
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

namespace {

/// Calls f(shadow, address) for every word that the bytes touch.
template <class F>
void for_each_word(Region& region, uintptr_t address, int64_t bytes, F&& f) {
  if (region.shadow.size() == 0) region.shadow.reset(((region.high - region.low) >> region.granule_shift) + 1);
  const uintptr_t first = (address - region.low) >> region.granule_shift;
  const uintptr_t last = (address + static_cast<uintptr_t>(bytes) - 1 - region.low) >> region.granule_shift;
  for (uintptr_t word = first; word <= last; ++word)
    f(region.shadow.begin()[word], region.low + (word << region.granule_shift));
}

/// Shared memory has no element type: the first narrow access tells. Each part of a word has the word's history; of
/// static shared memory, which all kernels have together, only what this block touched. A buffer, whose element type
/// is known and which may have gigabytes, begins anew.
void split_words(Region& region, int shift) {
  const int before = std::exchange(region.granule_shift, shift);
  const size_t parts = size_t{1} << (before - shift);
  Sparse<Shadow> words;
  words.swap(region.shadow);
  if (words.size() == 0 || region.space == Space::global) return;
  region.shadow.reset(words.size() * parts);
  const bool fixed = region.index == kStaticShared, mine = region.block == engine.rank;
  const ClusterBlock& owner = engine.cluster[region.space == Space::shared ? region.block : engine.rank];
  const uintptr_t touched_low = mine ? engine.touched_shared_low : owner.touched_shared_low,
                  touched_high = mine ? engine.touched_shared_high : owner.touched_shared_high;
  const uintptr_t low = fixed ? std::max(region.low, touched_low) : region.low,
                  high = fixed ? std::min(region.high, touched_high) : region.high;
  for (size_t word = (low - region.low) >> before; low < high && word <= (high - 1 - region.low) >> before; ++word) {
    const Shadow& shadow = words.begin()[word];
    const bool known = shadow.write.block != 0 || shadow.reads[0].block != 0 || shadow.reads[1].block != 0;
    if (known) std::fill_n(region.shadow.begin() + word * parts, parts, shadow);
  }
}

}  // namespace

Stamp stamp_of(uint16_t site) {
  const uint16_t thread = engine.current->number;
  return {engine.block_number, engine.barrier, engine.current_warp->now(thread % 32), thread, site};
}

void expect_after(const Region& region, uintptr_t address, const Stamp& before, Kind kind, uint16_t site) {
  if (!ordered(before, region.space)) note_race(region, address, before, kind, site);
}

void check_race(Region& region, uintptr_t address, int bytes, Kind kind, uint16_t site) {
  if (bytes < 1 << region.granule_shift) split_words(region, bytes == 1 ? 0 : 1);
  Thread& now = *engine.current;
  const bool atomic = kind == Kind::atomic;
  const Stamp stamp = stamp_of(static_cast<uint16_t>(site | (atomic ? Stamp::kAtomic : 0)));
  if (kind == Kind::store && region.space == Space::global) now.fenced = false;
  for_each_word(region, address, bytes, [&](Shadow& shadow, uintptr_t word) {
    const auto conflict = [&](const Stamp& before) {
      if (!ordered(before, region.space)) note_race(region, word, before, kind, site);
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
  });
}

namespace {

void stamp_copy(Region& region, const Copy& copy, uint32_t barrier) {
  Stamp stamp = stamp_of(copy.site);
  stamp.barrier = barrier;
  for_each_word(region, reinterpret_cast<uintptr_t>(copy.to), copy.bytes,
                [&](Shadow& shadow, uintptr_t) { shadow = {stamp, {}}; });
}

}  // namespace

void copy_begins(Region& region, const Copy& copy) {
  check_race(region, reinterpret_cast<uintptr_t>(copy.to), copy.bytes, Kind::store, copy.site);
  stamp_copy(region, copy, Stamp::kInFlight);
}

void copy_lands(Region& region, const Copy& copy) { stamp_copy(region, copy, engine.barrier); }

void agent_stores(Region& region, uintptr_t address, int64_t bytes, size_t agent, uint32_t clock, uint16_t site) {
  check_race(region, address, static_cast<int>(bytes), Kind::store, site);
  const Stamp stamp{engine.block_number, engine.barrier, clock, static_cast<uint16_t>(agent), site};
  for_each_word(region, address, bytes, [&](Shadow& shadow, uintptr_t) { shadow = {stamp, {}}; });
}

void agent_is_late(Region& region, uintptr_t address, int64_t bytes, uint32_t clock) {
  for_each_word(region, address, bytes, [&](Shadow& shadow, uintptr_t) { shadow.write.warp_sync = clock; });
}

void fence_async_proxy() {
  Asynchronous& state = engine.current->asynchronous;
  publish(state.fenced_known);
  state.fenced_barrier = engine.barrier;
}

namespace {

/// An agent sees a thread's store only behind a fence.proxy.async: of that thread, or of one that starts the agent and
/// knew of the store. Source: NVIDIA, "PTX ISA", release 9.0, "Memory Consistency Model: Proxy-preserved base causality
/// order".
void expect_fenced(const Stamp& store, uint16_t site) {
  if (store.block != engine.block_number || is_agent(store) || !ordered(store, Space::shared)) return;
  const Asynchronous &mine = engine.current->asynchronous, &its = engine.threads[store.thread].asynchronous;
  if (store.warp_sync < at(its.fenced_known, store.thread)) return;
  if (store.barrier < mine.fenced_barrier || store.warp_sync < at(mine.fenced_known, store.thread)) return;
  note_fault(FaultKind::in_flight, engine.state->sites[site].pc,
             "reads what was stored at " + text_of(where_is(engine.state->sites[store.site & ~Stamp::kAtomic].pc)) +
                 ", with no fence.proxy.async in between");
}

}  // namespace

void agent_loads(Region& region, uintptr_t address, size_t agent, uint32_t clock, uint16_t site) {
  const Stamp stamp{engine.block_number, engine.barrier, clock, static_cast<uint16_t>(agent), site};
  for_each_word(region, address, 16, [&](Shadow& shadow, uintptr_t word) {
    expect_after(region, word, shadow.write, Kind::load, site);
    expect_fenced(shadow.write, site);
    Stamp& first = shadow.reads[0];
    const bool first_is_ours = first.block == stamp.block && first.thread == stamp.thread;
    shadow.reads[first_is_ours || ordered(first, region.space) ? 0 : 1] = stamp;
  });
}

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

void join(Clock& into, const Clock& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

void raise(Clock& clock, size_t of, uint32_t to) {
  if (clock.size() <= of) clock.resize(of + 1);
  clock[of] = std::max(clock[of], to);
}

uint32_t Warp::known(int lane, int other) const {
  return lanes == nullptr ? sync : lanes->known[static_cast<size_t>(lane)][static_cast<size_t>(other)];
}

LaneClocks& Warp::each_lane() {
  if (lanes == nullptr) {
    lanes = std::make_unique<LaneClocks>();
    lanes->own.fill(sync);
    for (auto& of_lane : lanes->known) of_lane.fill(sync);
  }
  return *lanes;
}

void publish(Clock& into) {
  const Thread& now = *engine.current;
  Warp& warp = *engine.current_warp;
  const int lane = now.number % 32;
  join(into, now.asynchronous.known);
  if (engine.cluster.size() > 1) join(into, engine.block_known);
  for (int other = 0; other < 32; ++other) {
    const size_t number = now.number / 32 * size_t{32} + static_cast<size_t>(other);
    if (number < engine.threads.size()) raise(into, number, warp.known(lane, other));
  }
  raise(into, now.number, warp.now(lane) + 1);
  ++warp.each_lane().own[static_cast<size_t>(lane)];
}

void share_known() {
  const bool alone = engine.cluster.size() == 1;
  const size_t first = engine.rank * engine.apart;
  for (size_t number = first; number < first + engine.threads_of_block; ++number) {
    const Clock& known = engine.threads[number].asynchronous.known;
    for (size_t i = alone ? engine.first_agent : 0; i < known.size(); ++i) raise(engine.block_known, i, known[i]);
  }
  if (alone) return;  // nobody asks for what the barrier's own number orders
  for (size_t number = first; number < first + engine.threads_of_block; number += 32) {
    Warp& warp = engine.warps[number / 32];
    if (warp.lanes != nullptr) warp.sync = *std::max_element(warp.lanes->own.begin(), warp.lanes->own.end());
    warp.lanes.reset();
    ++warp.sync;
    for (size_t lane = 0; lane < 32; ++lane) raise(engine.block_known, number + lane, warp.sync);
  }
}

namespace {

/// What one lane of the group knows of other warps and of agents, all of them know.
void share_known(const Warp& warp, uint32_t group) {
  const auto first = static_cast<size_t>(&warp - engine.warps.data()) * 32;
  const auto known = [&](uint32_t lanes) -> Clock& {
    return engine.threads[first + static_cast<size_t>(std::countr_zero(lanes))].asynchronous.known;
  };
  Clock all;
  for (uint32_t left = group; left != 0; left &= left - 1) join(all, known(left));
  for (uint32_t left = group; left != 0 && !all.empty(); left &= left - 1) known(left) = all;
}

}  // namespace

void synchronise_lanes(Warp& warp, uint32_t group, uint32_t live) {
  share_known(warp, group);
  if (group == live) {  // all that are left: one clock for everybody again
    if (warp.lanes != nullptr) warp.sync = *std::max_element(warp.lanes->own.begin(), warp.lanes->own.end());
    warp.lanes.reset();
    ++warp.sync;
    return;
  }
  LaneClocks& clocks = warp.each_lane();
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
