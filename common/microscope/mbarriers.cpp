// Barriers in shared memory (mbarrier): who has arrived, which bytes have landed, who may go on; and what everybody
// knows after that. Source: NVIDIA, "PTX ISA", release 9.0, "Parallel Synchronization and Communication Instructions:
// mbarrier", with the sections "Phase of the mbarrier object", "Tracking asynchronous operations by the mbarrier
// object" and "mbarrier.try_wait".
#include <algorithm>

#include "common/microscope/cluster.h"
#include "common/microscope/hopper.h"

namespace tenfold::simt {
namespace {

constexpr int kMost = (1 << 20) - 1;  // arrivals, and bytes under way: "Contents of the mbarrier object"

std::string name_of(const Mbarrier& barrier) {
  return "the mbarrier at shared address " + hex(window_of(barrier.address, barrier.block), 5) +
         of_block(barrier.block);
}

Mbarrier* find(uintptr_t address, size_t block) {
  const auto it = std::find_if(engine.mbarriers.begin(), engine.mbarriers.end(), [&](const Mbarrier& barrier) {
    return barrier.address == address && barrier.block == block;
  });
  return it != engine.mbarriers.end() ? &*it : nullptr;
}

uint16_t site_of_touch(Kind kind, uintptr_t pc) {
  return site_of(static_cast<uint64_t>(pc) << 8 | static_cast<uint64_t>(kind), pc, kind, 8).index;
}

/// Whether the 8 bytes lie in shared memory. They are not counted as an access; who touches them must be ordered with
/// mbarrier.init, a store, but not with each other.
bool touch(uintptr_t address, size_t block, Kind kind, uintptr_t pc) {
  Region* const region = shared_region(address, block);
  if (region == nullptr) {
    note_fault(FaultKind::out_of_bounds, pc, "an mbarrier is not in shared memory");
    return false;
  }
  if (!in_bounds(*region, address, 8, pc)) return false;
  require_aligned(address, 8, pc);
  note_touched(*region, address, 8);
  if (!engine.state->options.races) return true;
  const uint16_t site = site_of_touch(kind, pc);
  check_race(*region, address, 8, kind, site);
  // Kept apart: a word remembers its latest write only, and that may be an arrival of the thread that initialised it.
  if (const Mbarrier* known = find(address, block); known != nullptr)
    expect_after(*region, address, known->initialised, kind, site);
  return true;
}

bool phase_is_over(const Mbarrier& barrier, uint32_t parity) { return (barrier.phase & 1) != parity; }

bool pass_mbarrier(Thread& thread) {
  Mbarrier& barrier = engine.mbarriers[thread.asynchronous.barrier];
  const uint32_t parity = thread.asynchronous.parity;
  if (!phase_is_over(barrier, parity) && barrier.pending == 0) land_copies(barrier);
  if (!phase_is_over(barrier, parity)) return false;
  join(thread.asynchronous.known, barrier.released);
  raise(thread.asynchronous.known, barrier.agent, barrier.phase);
  return true;
}

}  // namespace

size_t new_agent() {
  engine.agents.push_back({engine.current->number});
  return engine.first_agent + engine.agents.size() - 1;
}

Mbarrier* mbarrier_of(uintptr_t address, size_t block, uintptr_t pc) {
  if (!touch(address, block, Kind::atomic, pc)) return nullptr;
  Mbarrier* const known = find(address, block);
  if (known == nullptr) note_fault(FaultKind::mbarrier, pc, "this mbarrier was not initialised");
  return known;
}

void init_mbarrier(const uint64_t* barrier, int arrivals) {
  const auto pc = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  const auto address = reinterpret_cast<uintptr_t>(barrier);
  if (!touch(address, engine.rank, Kind::store, pc)) return;
  if (arrivals < 1 || arrivals > kMost) {
    note_fault(FaultKind::mbarrier, pc,
               std::to_string(arrivals) + " arrivals are not in 1 .. " + std::to_string(kMost));
  } else if (const Mbarrier* known = find(address, engine.rank); known != nullptr) {
    note_fault(FaultKind::mbarrier, pc, name_of(*known) + " is initialised a second time");
  } else {
    Mbarrier fresh;
    fresh.address = address, fresh.block = engine.rank, fresh.count = fresh.pending = arrivals;
    fresh.agent = new_agent(), fresh.initialised = stamp_of(site_of_touch(Kind::store, pc));
    engine.mbarriers.push_back(std::move(fresh));
  }
}

void fence_mbarriers() {
  for (Mbarrier& barrier : engine.mbarriers) barrier.fenced |= barrier.initialised.thread == engine.current->number;
}

void complete_phase(Mbarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  join(barrier.released, barrier.arrived);
  barrier.arrived.clear();
  barrier.pending = barrier.count;
  engine.agents[barrier.agent - engine.first_agent].done = ++barrier.phase;
  // More was copied than was announced: who waited for this phase does not know of what is still under way.
  for (BoxCopy& copy : barrier.copies) {
    copy.phase = barrier.phase;
    if (engine.state->options.races) {
      agent_is_late(*shared_region(copy.to, barrier.block), copy.to, copy.bytes(), copy.phase);
    }
  }
}

void arrive(Mbarrier& barrier, uint32_t bytes, bool release, uintptr_t pc) {
  if (barrier.pending == 0) {
    return note_fault(FaultKind::mbarrier, pc,
                      name_of(barrier) + " gets more than its " + std::to_string(barrier.count) +
                          " arrivals in a phase, which " + std::to_string(barrier.bytes) + " bytes hold up");
  }
  barrier.bytes += bytes;
  if (barrier.bytes > kMost) {
    note_fault(FaultKind::mbarrier, pc,
               name_of(barrier) + " cannot count to " + std::to_string(barrier.bytes) + " bytes under way");
  }
  --barrier.pending;
  if (release) {
    publish(barrier.arrived);
  } else {
    const Clock& known = engine.current->asynchronous.known;
    for (size_t agent = engine.first_agent; agent < known.size(); ++agent) raise(barrier.arrived, agent, known[agent]);
  }
  count_operation(pc, "mbarrier arrival");
  complete_phase(barrier);
}

void arrive_at_mbarrier(const uint64_t* barrier, uint32_t bytes) {
  const auto pc = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  Mbarrier* const known = mbarrier_of(reinterpret_cast<uintptr_t>(barrier), engine.rank, pc);
  if (known != nullptr) arrive(*known, bytes, true, pc);
}

void wait_at_mbarrier(const uint64_t* barrier, uint32_t parity) {
  void* const pc = __builtin_return_address(0);
  const Mbarrier* const known =
      mbarrier_of(reinterpret_cast<uintptr_t>(barrier), engine.rank, reinterpret_cast<uintptr_t>(pc));
  if (known == nullptr) return;
  engine.current->asynchronous.barrier = static_cast<size_t>(known - engine.mbarriers.data());
  engine.current->asynchronous.parity = parity & 1;
  wait(Thread::At::mbarrier, pc);
}

bool wake_lanes(const std::array<Thread*, 32>& lanes) {
  const Thread* first = nullptr;
  for (Thread* thread : lanes) {
    if (thread == nullptr) continue;
    const Thread::At at = thread->at;
    const bool over = (at == Thread::At::mbarrier && pass_mbarrier(*thread)) ||
                      (at == Thread::At::warpgroup && finish_products(*thread)) ||
                      (at == Thread::At::cluster && pass_cluster_barrier(*thread)) ||
                      (at == Thread::At::named_barrier && pass_named_barrier(*thread));
    if (!over) continue;
    thread->at = Thread::At::running;
    if (first == nullptr || first->pc != thread->pc)
      count_operation(thread->pc, at == Thread::At::mbarrier    ? "mbarrier wait"
                                  : at == Thread::At::warpgroup ? "wgmma wait"
                                  : at == Thread::At::cluster   ? "cluster barrier"
                                                                : "named barrier wait");
    first = thread;
  }
  return first != nullptr;
}

std::string missing(const Thread& thread) {
  const size_t block = thread.number / engine.apart;
  const std::string who = "thread " + std::to_string(thread.number % engine.apart) + of_block(block) + " waits for ";
  if (thread.at == Thread::At::cluster) {
    return who + "the cluster's barrier, where " + std::to_string(engine.cluster_barrier.missing) + " of " +
           std::to_string(engine.cluster_barrier.live) + " threads do not arrive";
  }
  if (thread.at == Thread::At::named_barrier) return who + missing_at_named_barrier(thread);
  if (thread.at == Thread::At::warpgroup) {
    const auto begin = engine.threads.begin() + thread.number / 128 * 128;
    const auto absent = std::count_if(begin, begin + 128, [&](const Thread& other) {
      return other.asynchronous.groups < thread.asynchronous.wanted;
    });
    return who + "a group of wgmma that " + std::to_string(absent) +
           " of the 128 threads of its warpgroup have not committed";
  }
  const Mbarrier& barrier = engine.mbarriers[thread.asynchronous.barrier];
  int64_t bytes = barrier.bytes;
  for (const BoxCopy& copy : barrier.copies) bytes -= copy.bytes();
  std::string lacks;
  if (barrier.pending != 0)
    lacks = std::to_string(barrier.pending) + " of " + std::to_string(barrier.count) + " arrivals never come";
  if (bytes > 0)
    lacks += (lacks.empty() ? "" : " and ") + std::to_string(bytes) + " announced bytes that no copy brings";
  if (bytes < 0) lacks += (lacks.empty() ? "" : " and ") + std::to_string(-bytes) + " bytes more come than announced";
  return who + "phase " + std::to_string(barrier.phase) + " (parity " + std::to_string(barrier.phase & 1) + ") of " +
         name_of(barrier) + ": " + lacks;
}

void expect_nothing_in_flight() {
  expect_no_arrivals_left();
  for (const Mbarrier& barrier : engine.mbarriers) {
    if (barrier.block != engine.rank) continue;
    for (const BoxCopy& copy : barrier.copies) {
      note_fault(FaultKind::in_flight, copy.pc,
                 "the block ends while this copy of " + std::to_string(copy.bytes()) +
                     " bytes may be under way: nobody has waited for its phase of " + name_of(barrier));
    }
  }
  const size_t first = engine.rank * engine.apart, end = first + engine.threads_of_block;
  for (size_t i = first / 128; i < engine.warpgroups.size() && i * 128 < end; ++i) {
    for (const Product& product : engine.warpgroups[i].products) {
      note_fault(FaultKind::in_flight, product.pc,
                 "the block ends while this product may be under way: nobody has waited for its group");
    }
  }
  for (size_t number = first; number < end; ++number) {
    for (const BoxStore& store : engine.threads[number].asynchronous.stores) {
      if (store.read) continue;
      note_fault(FaultKind::in_flight, store.box.pc,
                 "the block ends while this store of " + std::to_string(store.box.bytes()) +
                     " bytes may still read its shared memory: nobody has waited for its group");
    }
  }
}

}  // namespace tenfold::simt
