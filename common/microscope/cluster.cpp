// Clusters: blocks that run together. They take turns as threads do; each has its own shared memory, which the others
// reach by addresses that mapa makes. Source: NVIDIA, "PTX ISA", release 9.0, "Cluster of Cooperative Thread Arrays",
// "mapa", "barrier.cluster"; NVIDIA, "CUDA C++ Programming Guide", release 13, "Distributed Shared Memory": a block
// must have begun before others touch its shared memory, and must not end before they have.
#include "common/microscope/cluster.h"

#include <algorithm>
#include <cstring>

#include "common/microscope/hopper.h"

namespace tenfold::simt {
namespace {

// Dynamic and static shared memory in the shared window; what mapa makes has the block's number plus one above that.
constexpr uintptr_t kDynamic = 1024 + 128, kStatic = 256 * 1024;
constexpr int kBlockShift = 24;

void exchange_fields(ClusterBlock& block) {
  std::swap(engine.touched_shared_low, block.touched_shared_low);
  std::swap(engine.touched_shared_high, block.touched_shared_high);
  std::swap(engine.block_index, block.block_index);
  std::swap(engine.barrier, block.barrier);
  std::swap(engine.barrier_predicates, block.barrier_predicates);
  std::swap(engine.barrier_result, block.barrier_result);
  std::swap(engine.acquired, block.acquired);
  std::swap(engine.block_known, block.block_known);
  std::swap(engine.reuse, block.reuse);
}

/// The static shared memory that a block may have touched.
std::pair<uintptr_t, uintptr_t> touched() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // nobody tells what was touched
  if (engine.cluster.size() > 1) return {engine.static_shared->low, engine.static_shared->high};
#endif
  return {engine.touched_shared_low, std::max(engine.touched_shared_low, engine.touched_shared_high)};
}

/// Where bytes of a block's shared memory lie: what is static of a block that has not its turn lies in `kept`.
std::byte* host_of(const Region& region, uintptr_t address, size_t bytes) {
  if (region.index == kDynamicShared || region.block == engine.rank)
    return static_cast<std::byte*>(pointer_to(address));
  ClusterBlock& block = engine.cluster[region.block];
  uintptr_t &low = block.touched_shared_low, &high = block.touched_shared_high;
  if (high <= low) low = high = address;
  if (address < low) {
    block.kept.insert(block.kept.begin(), low - address, std::byte{0xff});
    low = address;
  }
  if (address + bytes > high) {
    high = address + bytes;
    block.kept.resize(high - low, std::byte{0xff});
  }
  return block.kept.data() + (address - low);
}

/// What mapa made.
struct Place {
  size_t block = 0;
  Region* region = nullptr;
  uintptr_t address = 0;  ///< in that block
};

/// False, and a fault, where there is no such block.
bool find_place(Place& place, uint32_t address, uintptr_t pc) {
  const uintptr_t window = address & ((1U << kBlockShift) - 1);
  const uint32_t mapped = address >> kBlockShift;
  place.block = mapped == 0 ? engine.rank : mapped - 1;
  if (place.block >= engine.cluster.size()) {
    note_fault(FaultKind::cluster, pc,
               "an address of block " + std::to_string(place.block) + " of a cluster of " +
                   std::to_string(engine.cluster.size()));
    return false;
  }
  ClusterBlock& block = engine.cluster[place.block];
  place.region = window >= kStatic ? &block.fixed : &block.dynamic;
  place.address = place.region->low + window - (window >= kStatic ? kStatic : kDynamic);
  return true;
}

/// A load or store of 4 bytes in a block's shared memory. Null where it may not be.
std::byte* touch_word(uint32_t address, Kind kind, uintptr_t pc) {
  Place place;
  if (!find_place(place, address, pc) || !visit(place.block, true, pc)) return nullptr;
  if (!in_bounds(*place.region, place.address, 4, pc)) return nullptr;
  require_aligned(place.address, 4, pc);
  // Banks are those of the same place here.
  const Region& own = place.region->index == kStaticShared ? *engine.static_shared : *engine.dynamic_shared;
  const uintptr_t same = place.address - place.region->low + own.low;
  const Site& site = count_lane(own, same, 4, kind, static_cast<uint64_t>(pc) << 8, pc);
  std::byte* const host = host_of(*place.region, place.address, 4);
  if (engine.state->options.races) check_race(*place.region, place.address, 4, kind, site.index);
  return host;
}

}  // namespace

void begin_cluster(uint64_t first) {
  const auto memory = touched();  // of whoever ran last
  if (memory.first < memory.second) std::memset(pointer_to(memory.first), 0xff, memory.second - memory.first);
  engine.rank = 0;
  engine.first_of_cluster = engine.state->blocks_started + 1;
  engine.state->blocks_started += static_cast<uint32_t>(engine.cluster.size());
  const dim3 grid = engine.grid;
  for (size_t i = 0; i < engine.cluster.size(); ++i) {
    ClusterBlock& block = engine.cluster[i];
    const uint64_t number = first + i;
    block.kept.clear(), block.acquired.clear(), block.block_known.clear(), block.visits.clear();
    block.touched_shared_low = std::numeric_limits<uintptr_t>::max(), block.touched_shared_high = 0;
    block.block_index = {static_cast<uint32_t>(number % grid.x), static_cast<uint32_t>(number / grid.x % grid.y),
                         static_cast<uint32_t>(number / grid.x / grid.y)};
    block.barrier = 0, block.barrier_predicates = block.barrier_result = 0, block.ended = false;
    if (const Region& dynamic = block.dynamic; dynamic.high != dynamic.low)
      std::memset(pointer_to(dynamic.low), 0xff, dynamic.high - dynamic.low);
  }
  exchange_fields(engine.cluster[0]);
  engine.block_number = engine.first_of_cluster;
  engine.static_shared = &engine.cluster[0].fixed;
  engine.dynamic_shared = engine.cluster[0].memory.empty() ? nullptr : &engine.cluster[0].dynamic;
  const int threads = static_cast<int>(engine.cluster.size() * engine.threads_of_block);
  engine.cluster_barrier = {};
  engine.cluster_barrier.missing = engine.cluster_barrier.live = threads;
}

void turn_to(size_t rank) {
  if (rank == engine.rank) return;
  const auto [low, high] = touched();
  std::vector<std::byte> mine;
  if (low < high) {
    mine.assign(static_cast<std::byte*>(pointer_to(low)), static_cast<std::byte*>(pointer_to(high)));
    std::memset(pointer_to(low), 0xff, high - low);
    engine.touched_shared_low = low, engine.touched_shared_high = high;
  }
  engine.cluster[engine.rank].kept = std::move(mine);
  exchange_fields(engine.cluster[engine.rank]);
  ClusterBlock& next = engine.cluster[rank];
  exchange_fields(next);
  if (!next.kept.empty()) std::memcpy(pointer_to(engine.touched_shared_low), next.kept.data(), next.kept.size());
  engine.rank = rank;
  engine.block_number = engine.first_of_cluster + static_cast<uint32_t>(rank);
  engine.static_shared = &next.fixed;
  engine.dynamic_shared = next.memory.empty() ? nullptr : &next.dynamic;
}

std::string of_block(size_t block) { return engine.cluster.size() == 1 ? "" : " of block " + std::to_string(block); }

Region* shared_region(uintptr_t address, size_t block) {
  ClusterBlock& of = engine.cluster[block];
  for (Region* region : {&of.fixed, &of.dynamic}) {
    if (address - region->outer_low < region->outer_high - region->outer_low) return region;
  }
  return nullptr;
}

uintptr_t in_block(uintptr_t own, size_t block) {
  const Region* const region = shared_region(own, engine.rank);
  if (region == nullptr || region->index == kStaticShared) return own;
  return own - region->low + engine.cluster[block].dynamic.low;
}

uint32_t window_of(uintptr_t address, size_t block) {
  const Region* const region = shared_region(address, block);
  if (region != nullptr && region->index == kDynamicShared)
    return static_cast<uint32_t>(address - region->low + kDynamic);
  return static_cast<uint32_t>(address - engine.cluster[block].fixed.low + kStatic);
}

uint32_t shared_window_address(const void* pointer) {
  return window_of(reinterpret_cast<uintptr_t>(pointer), engine.rank);
}

bool visit(size_t block, bool keep, uintptr_t pc) {
  if (block == engine.rank) return true;
  Thread& thread = *engine.current;
  const std::string name = "block " + std::to_string(block) + " of the cluster";
  if (engine.cluster[block].ended) {
    note_fault(FaultKind::block_ended, pc, name + " has ended, and its shared memory with it");
    return false;
  }
  Asynchronous& mine = thread.asynchronous;
  if ((mine.begun >> block & 1) == 0) {
    const auto knows = [&](const Clock& clock) {
      const size_t first = block * engine.apart;
      for (size_t other = first; other < first + engine.threads_of_block; ++other) {
        if (at(clock, other) != 0) return true;
      }
      return false;
    };
    if (!knows(mine.known) && !knows(engine.block_known)) {
      note_fault(FaultKind::cluster, pc, name + " may not have begun: no barrier of the cluster lies before this");
    }
    mine.begun |= 1U << block;  // said once
  }
  if (keep) engine.cluster[block].visits[thread.number] = {engine.current_warp->now(thread.number % 32), pc};
  return true;
}

void end_block() {
  ClusterBlock& block = engine.cluster[engine.rank];
  block.ended = true;
  if (!block.visits.empty()) {
    Clock known = engine.block_known;
    const size_t first = engine.rank * engine.apart;
    for (size_t number = first; number < first + engine.threads_of_block; ++number)
      join(known, engine.threads[number].asynchronous.known);
    for (const auto& [number, visit] : block.visits) {
      if (visit.clock < at(known, number)) continue;
      note_fault(FaultKind::block_ended, visit.pc,
                 "block " + std::to_string(engine.rank) + " of the cluster may end before thread " +
                     std::to_string(number % engine.apart) + of_block(number / engine.apart) +
                     " touches its shared memory: it waits for nothing that comes after");
    }
  }
  expect_nothing_in_flight();
}

// --- what kernels call -----------------------------------------------------------------------------------------------

uint32_t cluster_rank() { return static_cast<uint32_t>(engine.rank); }
uint32_t cluster_blocks() { return static_cast<uint32_t>(engine.cluster.size()); }

uint32_t map_to_block(const void* shared, uint32_t block) {
  return (std::min(block, 254U) + 1) << kBlockShift | shared_window_address(shared);
}

uint32_t load_from_cluster(uint32_t address) {
  uint32_t value = ~0U;
  const std::byte* const from =
      touch_word(address, Kind::load, reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
  if (from != nullptr) std::memcpy(&value, from, sizeof value);
  return value;
}

void store_to_cluster(uint32_t address, uint32_t value) {
  std::byte* const to = touch_word(address, Kind::store, reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
  if (to != nullptr) std::memcpy(to, &value, sizeof value);
}

void arrive_in_cluster(uint32_t address, bool release) {
  const auto pc = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  Place place;
  if (!find_place(place, address, pc) || !visit(place.block, true, pc)) return;
  Mbarrier* const known = mbarrier_of(place.address, place.block, pc);
  if (known != nullptr) arrive(*known, 0, release, pc);
}

void arrive_at_cluster_barrier() {
  const auto pc = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  Asynchronous& mine = engine.current->asynchronous;
  if (mine.cluster_arrived) {
    return note_fault(FaultKind::cluster, pc, "arrives at the cluster's barrier again, and has not waited in between");
  }
  mine.cluster_arrived = true, mine.cluster_phase = engine.cluster_barrier.phase;
  publish(engine.cluster_barrier.arrived);
  --engine.cluster_barrier.missing;
}

void wait_at_cluster_barrier() {
  void* const pc = __builtin_return_address(0);
  if (!engine.current->asynchronous.cluster_arrived) {
    return note_fault(FaultKind::cluster, reinterpret_cast<uintptr_t>(pc),
                      "waits at the cluster's barrier, and has not arrived");
  }
  wait(Thread::At::cluster, pc);
}

bool pass_cluster_barrier(Thread& thread) {
  ClusterBarrier& barrier = engine.cluster_barrier;
  Asynchronous& mine = thread.asynchronous;
  if (mine.cluster_phase == barrier.phase) {
    if (barrier.missing != 0) return false;
    ++barrier.phase;
    barrier.missing = barrier.live;
    join(barrier.released, barrier.arrived);
    barrier.arrived.clear();
  }
  mine.cluster_arrived = false;
  join(mine.known, barrier.released);
  return true;
}

void leave_cluster_barrier(const Thread& thread) {
  ClusterBarrier& barrier = engine.cluster_barrier;
  --barrier.live;
  const Asynchronous& its = thread.asynchronous;
  if (!its.cluster_arrived || its.cluster_phase != barrier.phase) --barrier.missing;
}

}  // namespace tenfold::simt
