// TMA's stores: boxes from shared memory to a tensor. On a GPU they read shared memory at any time until a wait for
// that, cp.async.bulk.wait_group.read, and write global memory until one without .read, or the kernel's end. Here they
// do both as late as they may, at the first of these waits; until then every access is a race. Source: NVIDIA, "PTX
// ISA", release 9.0, "cp.async.bulk.tensor", "cp.async.bulk.commit_group", "cp.async.bulk.wait_group".
#include <algorithm>
#include <cstring>

#include "common/microscope/cluster.h"
#include "common/microscope/hopper.h"
#include "common/microscope/tensor_map.h"

namespace tenfold::simt {
namespace {

/// The thread knows that an agent of its own has done all before `clock`.
void know(size_t agent, uint32_t clock) {
  Agent& its = engine.agents[agent - engine.first_agent];
  its.done = std::max(its.done, clock);
  raise(engine.current->asynchronous.known, agent, clock);
}

}  // namespace

void store_box(const CUtensorMap* map, const void* shared, int x, int y) {
  const auto pc = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  TensorMap tensor;
  if (!read_map(tensor, map, pc)) return;
  const BoxCopy box = box_of(tensor, shared, x, y, 0, pc);
  Region* const region = shared_region(box.to, engine.rank);
  if (region == nullptr)
    return note_fault(FaultKind::out_of_bounds, pc, "a box is stored from memory that is not shared");
  if (!box_fits(*region, box, "comes from")) return;
  Asynchronous& mine = engine.current->asynchronous;
  if (mine.reader == 0) mine.reader = new_agent(), mine.writer = new_agent();
  const auto check = [&](Region& of, uintptr_t row, int bytes, uint16_t site) {
    agent_stores(of, row, bytes, mine.writer, mine.store_groups, site);
  };
  if (!touch_rows(box, Kind::store, check)) return;
  const auto bytes = static_cast<int>(box.bytes());
  const auto key = static_cast<uint64_t>(pc) << 8 | 1;
  note_touched(*region, box.to, bytes);
  const uint16_t site = site_of(key, pc, Kind::load, bytes).index;
  if (engine.state->options.count) {
    Sums& sums = count_bulk(*region, box.to, Kind::load, bytes, key, pc);
    sums.wavefronts += (bytes + 127) / 128, sums.ideal_wavefronts += (bytes + 127) / 128;
    sums.worst_ways = std::max(sums.worst_ways, 1);
  }
  for (int byte = 0; byte < bytes && engine.state->options.races; byte += 16)
    agent_loads(*region, box.to + static_cast<uintptr_t>(byte), mine.reader, mine.store_groups, site);
  mine.stores.push_back({box, mine.store_groups, false});
  count_operation(pc, "TMA store");
}

void commit_stores() { ++engine.current->asynchronous.store_groups; }

void wait_for_stores(int newest, bool only_read) {
  Asynchronous& mine = engine.current->asynchronous;
  const auto left = static_cast<uint32_t>(newest);
  const uint32_t wanted = mine.store_groups > left ? mine.store_groups - left : 0;
  for (BoxStore& store : mine.stores) {
    if (store.group >= wanted || store.read) continue;
    for_each_packet(store.box, [](const std::byte* packet, uintptr_t to, int64_t offset, int64_t bytes) {
      if (bytes != 0) std::memcpy(pointer_to(to), packet + offset, static_cast<size_t>(bytes));
    });
    store.read = true;
  }
  if (mine.reader == 0) return;
  know(mine.reader, wanted);
  if (only_read) return;
  know(mine.writer, wanted);
  std::erase_if(mine.stores, [&](const BoxStore& store) { return store.group < wanted; });
}

}  // namespace tenfold::simt
