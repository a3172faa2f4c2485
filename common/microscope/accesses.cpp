// Counts what a warp's loads and stores ask of the memory system. g++ calls a hook at every access of a file that was
// compiled with -fsanitize=thread; lanes meet in a slot by instruction and by how often each came there in this turn.
#include <algorithm>
#include <bit>
#include <cstring>

#include "common/microscope/cluster.h"

namespace tenfold::simt {

Engine engine;

Region* region_of(uintptr_t address) {
  const auto in = [&](const Region* region) {
    return region != nullptr && address - region->outer_low < region->outer_high - region->outer_low;
  };
  if (in(engine.static_shared)) return engine.static_shared;
  if (in(engine.dynamic_shared)) return engine.dynamic_shared;
  if (in(engine.last)) return engine.last;
  if (in(engine.last_but_one)) {
    std::swap(engine.last, engine.last_but_one);
    return engine.last;
  }
  if (engine.current->fiber->holds(address)) return nullptr;
  const auto& regions = engine.state->regions;
  const auto after =
      std::upper_bound(regions.begin(), regions.end(), address,
                       [](uintptr_t a, const std::shared_ptr<Region>& region) { return a < region->outer_low; });
  if (after == regions.begin() || !in(std::prev(after)->get())) return nullptr;
  engine.last_but_one = engine.last;
  return engine.last = std::prev(after)->get();
}

Site& site_of(uint64_t key, uintptr_t pc, Kind kind, int bytes) {
  key |= static_cast<uint64_t>(engine.kernel & 0xff) << 56;  // helpers that are called are code of several kernels
  Site*& cached = engine.site_cache[(key ^ key >> 12) % engine.site_cache.size()];
  if (cached != nullptr && cached->key == key) return *cached;
  auto& state = *engine.state;
  Site*& known = state.site_of[key];
  if (known == nullptr) {
    Site site;
    site.key = key, site.pc = pc, site.kernel = engine.kernel, site.kind = kind, site.bytes = bytes;
    site.index = static_cast<uint16_t>(state.sites.size());
    known = &state.sites.emplace_back(std::move(site));
  }
  return *(cached = known);
}

Sums& sums_of(Site& site, int region) {
  for (Sums& sums : site.sums) {
    if (sums.region == region) return sums;
  }
  site.sums.emplace_back().region = region;
  site.sums.back().example.fill(-1);
  return site.sums.back();
}

namespace {

/// 32-byte sectors that the lanes touch, in ascending order; each is also marked in the buffer's map.
int sectors_of(const Slot& slot, int bytes, const Region& region, const Sparse<uint64_t>& touched,
               std::array<uint64_t, 64>& found) {
  int count = 0;
  for (uint32_t lanes = slot.mask; lanes != 0; lanes &= lanes - 1) {
    const uintptr_t address = slot.address[std::countr_zero(lanes)];
    const uint64_t first = address >> 5, last = (address + static_cast<uintptr_t>(bytes) - 1) >> 5;
    for (uint64_t sector = first; sector <= last; ++sector) {
      if (count != 0 && found[static_cast<size_t>(count) - 1] == sector) continue;  // the neighbour's
      found[static_cast<size_t>(count++)] = sector;
    }
  }
  if (!std::is_sorted(found.begin(), found.begin() + count)) std::sort(found.begin(), found.begin() + count);
  count = static_cast<int>(std::unique(found.begin(), found.begin() + count) - found.begin());
  const uint64_t base = region.low >> 5;
  for (int i = 0; i < count; ++i) {
    const uint64_t bit = found[static_cast<size_t>(i)] - base;
    touched.begin()[bit >> 6] |= uint64_t{1} << (bit & 63);
  }
  return count;
}

struct Passes {
  int64_t all = 0, ideal = 0;
  int worst = 0;  ///< distinct words of one bank
};

/// Passes over the 32 four-byte banks, in `groups` of neighbouring lanes; lanes that want the same word share it.
Passes passes_of(const Slot& slot, int bytes, int groups) {
  Passes passes;
  const int lanes_each = 32 / groups, words = std::max(1, bytes / 4);
  const uintptr_t aligned = ~(static_cast<uintptr_t>(bytes) - 1);
  for (int group = 0; group < groups; ++group) {
    std::array<std::array<uint64_t, 32>, 32> wanted;  // distinct words of each bank
    std::array<int, 32> ways{};
    int worst = 0;
    for (int lane = group * lanes_each; lane < (group + 1) * lanes_each; ++lane) {
      if ((slot.mask >> lane & 1) == 0) continue;
      for (int w = 0; w < words; ++w) {
        const uint64_t word = ((slot.address[lane] & aligned) >> 2) + static_cast<uint64_t>(w);
        const size_t bank = word % 32;
        auto& here = wanted[bank];
        if (std::find(here.begin(), here.begin() + ways[bank], word) != here.begin() + ways[bank]) continue;
        here[static_cast<size_t>(ways[bank]++)] = word;
        worst = std::max(worst, ways[bank]);
      }
    }
    passes.all += worst;
    passes.ideal += worst != 0;
    passes.worst = std::max(passes.worst, worst);
  }
  return passes;
}

/// Eight-byte accesses go by half warps and sixteen-byte ones by quarters.
int groups_of(int bytes) { return bytes <= 4 ? 1 : bytes / 4; }

void wavefronts_of(const Slot& slot, int bytes, Sums& sums) {
  const Passes passes = passes_of(slot, bytes, groups_of(bytes));
  sums.wavefronts += passes.all;
  sums.ideal_wavefronts += passes.ideal;
  sums.worst_ways = std::max(sums.worst_ways, passes.worst);
}

/// Whether each lane's 16 bytes are those of the lane beside it, or of the lane but one.
bool lanes_pair(const Slot& slot) {
  for (const int apart : {1, 2}) {
    bool all = true;
    for (int lane = 0; lane < 32; ++lane) {
      const int other = lane ^ apart;
      if ((slot.mask >> lane & 1) != 0 && (slot.mask >> other & 1) != 0)
        all &= slot.address[lane] >> 4 == slot.address[other] >> 4;
    }
    if (all) return true;
  }
  return false;
}

/// What the request would take if nvcc had made it a part of a wider one. Sixteen bytes go by half warps where lanes
/// pair: NVIDIA on its forum, https://forums.developer.nvidia.com/t/unexpected-shared-memory-bank-conflict/77228, of
/// compute capability 7.x.
void wider_wavefronts_of(const Slot& slot, int bytes, Sums& sums) {
  if (bytes <= 8) sums.wavefronts_8 += passes_of(slot, 8, groups_of(8)).all;
  if (bytes <= 16) sums.wavefronts_16 += passes_of(slot, 16, lanes_pair(slot) ? 2 : groups_of(16)).all;
}

void count_slot(Site& site, const Slot& slot) {
  Region& region = slot.region == kStaticShared    ? *engine.static_shared
                   : slot.region == kDynamicShared ? *engine.dynamic_shared
                                                   : *engine.state->all_regions[static_cast<size_t>(slot.region)];
  Sums& sums = sums_of(site, slot.region);
  const int lanes = std::popcount(slot.mask);
  ++sums.requests;
  sums.lanes += lanes;
  if (region.space == Space::global) {
    std::array<uint64_t, 64> found;
    const int count = sectors_of(slot, site.bytes, region,
                                 site.kind == Kind::store ? region.sectors_written : region.sectors_read, found);
    sums.sectors += count;
    for (int i = 0; i < count; ++i) {
      constexpr auto kOfLine = static_cast<uint64_t>(kCacheLine / 32);
      sums.lines += i == 0 || found[static_cast<size_t>(i)] / kOfLine != found[static_cast<size_t>(i) - 1] / kOfLine;
    }
    if (site.kind == Kind::atomic) sectors_of(slot, site.bytes, region, region.sectors_written, found);
    if (engine.state->options.reuse) note_request(region, found.data(), count, site.kind);
  } else {
    wavefronts_of(slot, site.bytes, sums);
    if (engine.state->options.reuse && site.kind == Kind::load) wider_wavefronts_of(slot, site.bytes, sums);
  }
  if (lanes > sums.example_lanes) {
    sums.example_lanes = lanes;
    for (size_t lane = 0; lane < 32; ++lane) {
      sums.example[lane] = (slot.mask >> lane & 1) != 0 ? static_cast<int64_t>(slot.address[lane] - region.low) : -1;
    }
  }
}

}  // namespace

void flush_warp() {
  if (engine.state->options.reuse) {
    // Loads of several lines in one loop come in turn, not one line after the other.
    std::vector<std::tuple<uint64_t, Site*, uint32_t>> order;
    for (Site* site : engine.touched) {
      for (uint32_t i = 0; i < site->used; ++i) order.emplace_back(site->slots[i].order, site, i);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [began, site, i] : order) count_slot(*site, site->slots[i]);
  }
  for (Site* site : engine.touched) {
    for (uint32_t i = 0; i < site->used && !engine.state->options.reuse; ++i) count_slot(*site, site->slots[i]);
    site->used = 0;
  }
  engine.touched.clear();
  flush_blocks();
}

bool in_bounds(const Region& region, uintptr_t address, int bytes, uintptr_t pc) {
  if (address >= region.low && address + static_cast<uintptr_t>(bytes) <= region.high) return true;
  const int64_t offset = static_cast<int64_t>(address) - static_cast<int64_t>(region.low);
  const std::string name =
      region.space == Space::shared ? "shared memory" + of_block(region.block) : "buffer " + region.name;
  note_fault(FaultKind::out_of_bounds, pc,
             "touches byte " + std::to_string(offset) + " of " + name + ", which has " +
                 std::to_string(region.high - region.low));
  return false;
}

void require_aligned(uintptr_t address, int bytes, uintptr_t pc) {
  const auto size = static_cast<uintptr_t>(bytes);
  if ((address & (size - 1)) == 0 || !std::has_single_bit(size)) return;
  note_fault(
      FaultKind::misaligned, pc,
      "a " + std::to_string(bytes) + "-byte access at an address that " + std::to_string(bytes) + " does not divide");
  end_launch();  // as on a GPU; and the CPU's own wide instruction, which comes next, would end the program
}

void note_touched(const Region& region, uintptr_t address, int bytes) {
  if (&region != engine.static_shared) return;
  engine.touched_shared_low = std::min(engine.touched_shared_low, address);
  engine.state->shared_begin = std::min(engine.state->shared_begin, static_cast<int64_t>(address - region.low));
  engine.touched_shared_high = std::max(engine.touched_shared_high, address + static_cast<uintptr_t>(bytes));
}

Site& count_lane(const Region& region, uintptr_t address, int bytes, Kind kind, uint64_t key, uintptr_t pc) {
  Site& site = site_of(key, pc, kind, bytes);
  note_touched(region, address, bytes);
  if (!engine.state->options.count) return site;
  if (site.turn != engine.turn) site.turn = engine.turn, site.next = 0;
  uint32_t at = site.next;
  while (at < site.used && site.slots[at].region != region.index)
    ++at;  // other lanes' same instruction on another buffer
  site.next = at + 1;
  if (at == site.used) {
    if (site.used == 0) engine.touched.push_back(&site);
    if (at == site.slots.size()) site.slots.emplace_back();
    site.slots[at].mask = 0;
    site.slots[at].region = region.index;
    site.slots[at].order = ++engine.slots;
    ++site.used;
  }
  const int lane = engine.current->number % 32;
  site.slots[at].mask |= 1U << lane;
  site.slots[at].address[lane] = address;
  ++engine.state->totals.lane_accesses;
  return site;
}

Sums& count_bulk(const Region& region, uintptr_t address, Kind kind, int bytes, uint64_t key, uintptr_t pc) {
  Sums& sums = sums_of(site_of(key, pc, kind, bytes), region.index);
  if (sums.requests++ == 0) sums.example[0] = static_cast<int64_t>(address - region.low);
  ++sums.lanes;
  ++engine.state->totals.lane_accesses;
  return sums;
}

bool count_access(uintptr_t address, int bytes, Kind kind, uint64_t key, uintptr_t pc) {
  Region* region = region_of(address);
  if (region == nullptr) {  // the thread's own: registers and stack
    if (!engine.current->asynchronous.accumulators.empty()) touch_registers(address, bytes, kind, pc);
    return true;
  }
  if (!in_bounds(*region, address, bytes, pc)) return false;
  require_aligned(address, bytes, pc);
  const Site& site = count_lane(*region, address, bytes, kind, key, pc);
  if (engine.state->options.races) {
    if (kind == Kind::atomic && region->space == Space::global) publish_and_learn(address);
    check_race(*region, address, bytes, kind, site.index);
  }
  return true;
}

}  // namespace tenfold::simt

#ifndef __SANITIZE_THREAD__  // else the real ThreadSanitizer is linked
// --- the compiler's hooks ----------------------------------------------------------------------------------------
// The names and meanings are those of ThreadSanitizer's run-time interface; the library itself is not linked.
namespace {

using tenfold::simt::engine;
using tenfold::simt::Kind;

inline void hook(const void* address, int bytes, Kind kind, void* pc) {
  if (!engine.active) return;
  const auto at = reinterpret_cast<uintptr_t>(pc);
  tenfold::simt::count_access(reinterpret_cast<uintptr_t>(address), bytes, kind, static_cast<uint64_t>(at) << 8, at);
}

// A struct copy in the widest accesses that the type's alignment allows, as nvcc makes them. Only size and address are
// known here: a size is a multiple of the alignment, so 12 bytes are three words, wherever they lie.
void hook_range(const void* address, size_t bytes, Kind kind, void* pc) {
  if (!engine.active) return;
  const auto at = reinterpret_cast<uintptr_t>(pc);
  auto from = reinterpret_cast<uintptr_t>(address);
  size_t width = 16;
  while (bytes % width != 0 || from % width != 0) width /= 2;
  for (uint64_t part = 0; bytes != 0; ++part) {
    tenfold::simt::count_access(from, static_cast<int>(width), kind, static_cast<uint64_t>(at) << 8 | (part & 255), at);
    from += width, bytes -= width;
  }
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier,bugprone-macro-parentheses): the names are the compiler's
#define TENFOLD_HOOK(name, bytes, kind) \
  extern "C" void name(void* address);  \
  extern "C" void name(void* address) { hook(address, bytes, kind, __builtin_return_address(0)); }
TENFOLD_HOOK(__tsan_read1, 1, Kind::load)
TENFOLD_HOOK(__tsan_read2, 2, Kind::load)
TENFOLD_HOOK(__tsan_read4, 4, Kind::load)
TENFOLD_HOOK(__tsan_read8, 8, Kind::load)
TENFOLD_HOOK(__tsan_read16, 16, Kind::load)
TENFOLD_HOOK(__tsan_write1, 1, Kind::store)
TENFOLD_HOOK(__tsan_write2, 2, Kind::store)
TENFOLD_HOOK(__tsan_write4, 4, Kind::store)
TENFOLD_HOOK(__tsan_write8, 8, Kind::store)
TENFOLD_HOOK(__tsan_write16, 16, Kind::store)
TENFOLD_HOOK(__tsan_unaligned_read2, 2, Kind::load)
TENFOLD_HOOK(__tsan_unaligned_read4, 4, Kind::load)
TENFOLD_HOOK(__tsan_unaligned_read8, 8, Kind::load)
TENFOLD_HOOK(__tsan_unaligned_read16, 16, Kind::load)
TENFOLD_HOOK(__tsan_unaligned_write2, 2, Kind::store)
TENFOLD_HOOK(__tsan_unaligned_write4, 4, Kind::store)
TENFOLD_HOOK(__tsan_unaligned_write8, 8, Kind::store)
TENFOLD_HOOK(__tsan_unaligned_write16, 16, Kind::store)
TENFOLD_HOOK(__tsan_volatile_read1, 1, Kind::load)
TENFOLD_HOOK(__tsan_volatile_read2, 2, Kind::load)
TENFOLD_HOOK(__tsan_volatile_read4, 4, Kind::load)
TENFOLD_HOOK(__tsan_volatile_read8, 8, Kind::load)
TENFOLD_HOOK(__tsan_volatile_write1, 1, Kind::store)
TENFOLD_HOOK(__tsan_volatile_write2, 2, Kind::store)
TENFOLD_HOOK(__tsan_volatile_write4, 4, Kind::store)
TENFOLD_HOOK(__tsan_volatile_write8, 8, Kind::store)
#undef TENFOLD_HOOK

extern "C" {
void __tsan_read_range(void* address, size_t bytes);
void __tsan_write_range(void* address, size_t bytes);
void __tsan_vptr_update(void** slot, void* value);
void __tsan_vptr_read(void** slot);
void __tsan_func_entry(void* pc);
void __tsan_func_exit();
void __tsan_init();

void __tsan_read_range(void* address, size_t bytes) {
  hook_range(address, bytes, Kind::load, __builtin_return_address(0));
}
void __tsan_write_range(void* address, size_t bytes) {
  hook_range(address, bytes, Kind::store, __builtin_return_address(0));
}
void __tsan_vptr_update(void** slot, void* value) { *slot = value; }
void __tsan_vptr_read(void** /*slot*/) {}
void __tsan_func_entry(void* /*pc*/) {}
void __tsan_func_exit() {}
void __tsan_init() {}
}
// NOLINTEND(bugprone-reserved-identifier,bugprone-macro-parentheses)
#endif
