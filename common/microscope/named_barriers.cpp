// Barriers with a number, at which some threads of a block wait (bar.sync) and others only arrive (bar.arrive). Source:
// NVIDIA, "PTX ISA", release 9.0, "Parallel Synchronization and Communication Instructions: bar, barrier".
#include "common/microscope/engine.h"
#include "common/microscope/hopper.h"

namespace tenfold::simt {
namespace {

constexpr int kNumbers = 16;  // 0 is __syncthreads

std::string name_of(size_t number) { return "named barrier " + std::to_string(number); }

/// Its place in engine.named_barriers: each block of a cluster has its own.
size_t place_of(int number) { return engine.rank * kNumbers + static_cast<size_t>(number); }

/// The barrier, at which the running thread has arrived; null, and a fault, where there is no such barrier.
NamedBarrier* arrive(int number, int threads, uintptr_t pc) {
  const auto bad = [&](const std::string& why) {
    note_fault(FaultKind::divergent_barrier, pc, why);
    return nullptr;
  };
  if (number < 1 || number >= kNumbers) return bad(std::to_string(number) + " is not the number of a barrier, 1 to 15");
  if (threads < 32 || threads % 32 != 0 || static_cast<size_t>(threads) > engine.threads_of_block)
    return bad(std::to_string(threads) + " threads are not whole warps of this block");
  if (engine.named_barriers.empty()) engine.named_barriers.resize(kNumbers * engine.cluster.size());
  NamedBarrier& barrier = engine.named_barriers[place_of(number)];
  if (barrier.came != 0 && barrier.threads != threads) {
    return bad(name_of(static_cast<size_t>(number)) + " is for " + std::to_string(threads) + " threads here and for " +
               std::to_string(barrier.threads) + " at " + text_of(where_is(barrier.pc)));
  }
  barrier.threads = threads, barrier.pc = pc;
  publish(barrier.arrived);
  if (++barrier.came == threads) {
    join(barrier.released, barrier.arrived);
    barrier.arrived.clear();
    barrier.came = 0;
    ++barrier.phase;
  }
  return &barrier;
}

}  // namespace

void sync_named_barrier(int number, int threads) {
  void* const pc = __builtin_return_address(0);
  const uint32_t phase = engine.named_barriers.empty() || number < 0 || number >= kNumbers
                             ? 0
                             : engine.named_barriers[place_of(number)].phase;
  if (arrive(number, threads, reinterpret_cast<uintptr_t>(pc)) == nullptr) return;
  engine.current->asynchronous.named_barrier = place_of(number);
  engine.current->asynchronous.named_phase = phase;
  wait(Thread::At::named_barrier, pc);
}

void arrive_at_named_barrier(int number, int threads) {
  const auto pc = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  if (arrive(number, threads, pc) != nullptr && engine.current->number % 32 == 0)
    count_operation(pc, "named barrier arrival");
}

bool pass_named_barrier(Thread& thread) {
  const NamedBarrier& barrier = engine.named_barriers[thread.asynchronous.named_barrier];
  if (barrier.phase == thread.asynchronous.named_phase) return false;
  join(thread.asynchronous.known, barrier.released);
  return true;
}

std::string missing_at_named_barrier(const Thread& thread) {
  const size_t place = thread.asynchronous.named_barrier;
  const NamedBarrier& barrier = engine.named_barriers[place];
  return name_of(place % kNumbers) + ": " + std::to_string(barrier.threads - barrier.came) + " of " +
         std::to_string(barrier.threads) + " threads never come";
}

void expect_no_arrivals_left() {
  if (engine.named_barriers.empty()) return;
  for (int number = 0; number < kNumbers; ++number) {
    const NamedBarrier& barrier = engine.named_barriers[place_of(number)];
    if (barrier.came == 0) continue;
    note_fault(FaultKind::divergent_barrier, barrier.pc,
               "the block ends when " + std::to_string(barrier.came) + " of " + std::to_string(barrier.threads) +
                   " threads have come to " + name_of(static_cast<size_t>(number)) + ": nobody waits for them");
  }
}

}  // namespace tenfold::simt
