// Lets the threads of a block take turns: each runs to its next barrier or warp operation, warp by warp, block by
// block.
#include <link.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "common/base/seconds_since.h"
#include "common/microscope/engine.h"

namespace tenfold::simt {

void note_fault(FaultKind kind, uintptr_t pc, const std::string& text) {
  Fault& fault = engine.state->faults[{kind, pc}];
  if (fault.count++ != 0) return;
  fault.kind = kind;
  fault.where = where_is(pc);
  fault.text = text;
}

namespace {

/// What a fiber does all its life: one CUDA thread after another.
void body(Fiber* fiber) {
  for (;;) {
    engine.enter(engine.call);
    engine.current->at = Thread::At::done;
    fiber->suspend();
  }
}

void turn(Thread& thread) {
  if (thread.at == Thread::At::start) {
    if (engine.idle.empty()) {
      engine.fibers.push_back(std::make_unique<Fiber>(body));
      engine.idle.push_back(engine.fibers.back().get());
    }
    thread.fiber = engine.idle.back();
    engine.idle.pop_back();
  }
  thread.at = Thread::At::running;
  engine.current = &thread;
  ++engine.turn;
  engine.active = true;
  thread.fiber->resume();
  engine.active = false;
  if (thread.at == Thread::At::done) engine.idle.push_back(thread.fiber);
}

/// Runs a warp until each of its threads waits at a barrier, waits for what does not come from this warp, or is done.
/// True when a thread went on.
bool run_warp(size_t number) {
  engine.current_warp = &engine.warps[number];
  std::array<Thread*, 32> lanes{};
  for (size_t lane = 0; lane < 32 && number * 32 + lane < engine.threads.size(); ++lane)
    lanes[lane] = &engine.threads[number * 32 + lane];
  bool any = wake_lanes(lanes), more = true;
  while (more) {
    for (Thread* thread : lanes) {
      if (thread == nullptr || (thread->at != Thread::At::start && thread->at != Thread::At::running)) continue;
      any = true;
      turn(*thread);
      if (engine.lost) break;
    }
    flush_warp();
    if (engine.lost) return any;
    more = complete_warp_operations(lanes, engine.warps[number]);
    more |= wake_lanes(lanes);
  }
  return any;
}

/// Until no warp can go on without a barrier of the block.
void run_warps() {
  bool any = true;
  while (any && !engine.lost) {
    any = false;
    for (size_t warp = 0; warp < engine.warps.size() && !engine.lost; ++warp) any |= run_warp(warp);
    if (engine.mbarriers.empty() && engine.agents.empty() && engine.named_barriers.empty())
      return;  // no warp waits for another
  }
}

/// After every warp had its turn: opens the barrier, or says why nobody can go on. False when the block is over.
bool next_phase() {
  if (engine.lost) return false;
  const Thread* waiting = nullptr;
  for (const Thread& thread : engine.threads) {
    if (thread.at == Thread::At::warp) {
      note_fault(FaultKind::deadlock, thread.pc,
                 "lane " + std::to_string(thread.number % 32) + " waits for lanes of mask " + hex(thread.mask) +
                     " that never come here");
      engine.lost = true;
    }
    if (thread.at == Thread::At::mbarrier || thread.at == Thread::At::warpgroup ||
        thread.at == Thread::At::named_barrier) {
      note_fault(FaultKind::deadlock, thread.pc, missing(thread));
      engine.lost = true;
    }
    if (thread.at != Thread::At::barrier) continue;
    // The compiler may make two calls of one __syncthreads in the source.
    if (waiting != nullptr && waiting->pc != thread.pc && where_is(waiting->pc) != where_is(thread.pc)) {
      note_fault(FaultKind::divergent_barrier, thread.pc,
                 "some threads of the block wait at another __syncthreads, " + text_of(where_is(waiting->pc)));
    }
    waiting = waiting != nullptr ? waiting : &thread;
  }
  if (engine.lost || waiting == nullptr) return false;
  const auto done = std::count_if(engine.threads.begin(), engine.threads.end(),
                                  [](const Thread& t) { return t.at == Thread::At::done; });
  if (done != 0) {
    note_fault(FaultKind::divergent_barrier, waiting->pc,
               std::to_string(done) + " of " + std::to_string(engine.threads.size()) +
                   " threads never reach this __syncthreads");
  }
  for (Thread& thread : engine.threads) {
    if (thread.at == Thread::At::barrier) thread.at = Thread::At::running;
  }
  engine.barrier_result = std::exchange(engine.barrier_predicates, 0);
  ++engine.barrier;
  share_agents();
  if (engine.state->options.reuse) end_of_phase();
  ++engine.state->totals.barriers;
  count_operation(waiting->pc, "barrier");
  return true;
}

/// NaN everywhere in shared memory: a block must not read what the one before it left.
void forget_shared() {
  const auto fill = [](uintptr_t low, uintptr_t high) {
    if (low < high) std::memset(pointer_to(low), 0xff, high - low);
  };
  fill(engine.touched_shared_low, engine.touched_shared_high);
  engine.touched_shared_low = std::numeric_limits<uintptr_t>::max(), engine.touched_shared_high = 0;
  if (engine.dynamic_shared != nullptr) fill(engine.dynamic_shared->low, engine.dynamic_shared->high);
}

void run_block() {
  auto& state = *engine.state;
  engine.block_number = ++state.blocks_started;
  engine.barrier = 0;
  engine.acquired.clear();
  engine.agents.clear();
  engine.agents_known.clear();
  engine.mbarriers.clear();
  engine.named_barriers.clear();
  engine.warpgroups.assign(engine.threads.size() / 128, {});
  for (Warp& warp : engine.warps) warp = {};
  for (size_t i = 0; i < engine.threads.size(); ++i) {
    Thread& thread = engine.threads[i];
    const auto number = static_cast<uint32_t>(i);
    thread = {};
    thread.number = static_cast<uint16_t>(i);
    thread.index = {number % engine.block.x, number / engine.block.x % engine.block.y,
                    number / engine.block.x / engine.block.y};
  }
  forget_shared();
  do {
    run_warps();
  } while (next_phase());
  if (!engine.lost) expect_nothing_in_flight();
  if (state.options.reuse) {
    end_of_phase();
    end_of_block();
  }
}

/// Where this core's copy of the kernel library's `__shared__` arrays lies: the thread-local storage of the library
/// that holds the kernel.
std::pair<uintptr_t, uintptr_t> thread_local_range(const void* code) {
  struct Search {
    uintptr_t code;
    std::pair<uintptr_t, uintptr_t> range{0, 0};
  } search{reinterpret_cast<uintptr_t>(code)};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& s = *static_cast<Search*>(data);
        bool holds = false;
        const ElfW(Phdr)* tls = nullptr;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& header = info->dlpi_phdr[i];
          if (header.p_type == PT_LOAD && s.code - (info->dlpi_addr + header.p_vaddr) < header.p_memsz) holds = true;
          if (header.p_type == PT_TLS) tls = &header;
        }
        if (!holds) return 0;
        if (tls != nullptr && info->dlpi_tls_data != nullptr) {
          const auto low = reinterpret_cast<uintptr_t>(info->dlpi_tls_data);
          s.range = {low, low + tls->p_memsz};
        }
        return 1;
      },
      &search);
  return search.range;
}

void require(bool holds, const std::string& what) {
  if (!holds) throw std::invalid_argument("kernel launch: " + what);
}

std::string text_of(dim3 d) {
  return "(" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ")";
}

/// The i-th of `running`: spread over the grid by the golden section, so that no row or column of it is met again and
/// again; where they are not few, which would meet blocks twice, evenly.
uint64_t sampled_block(uint64_t i, uint64_t running, uint64_t blocks) {
  if (blocks < 8 * running) return i * blocks / running;
  const double place = 0.5 + static_cast<double>(i) * 0.6180339887498949;
  return static_cast<uint64_t>((place - std::floor(place)) * static_cast<double>(blocks));
}

}  // namespace

void run_grid(Device& device, dim3 grid, dim3 block, size_t shared_bytes, const void* kernel,
              void (*enter)(const void*), const void* call) {
  constexpr size_t kMostShared = 227 * 1024;  // Hopper's, the largest there is
  const uint64_t threads = uint64_t{block.x} * block.y * block.z, blocks = uint64_t{grid.x} * grid.y * grid.z;
  require(threads >= 1 && threads <= 1024 && block.z <= 64,
          "block " + text_of(block) + " must have 1 to 1024 threads, at most 64 in z");
  require(blocks >= 1 && grid.x <= 0x7fffffffU && grid.y <= 65535 && grid.z <= 65535,
          "grid " + text_of(grid) + " must have at least one block, at most 65535 in y and z");
  require(
      shared_bytes <= kMostShared,
      std::to_string(shared_bytes) + " bytes of shared memory are more than any GPU's " + std::to_string(kMostShared));

  const std::lock_guard one(engine.one_launch);
  const CatchWildPointers catch_them;
  Device::State& state = Engine::state_of(device);
  const auto begin = std::chrono::steady_clock::now();
  engine.state = &state;
  engine.site_cache.fill(nullptr);
  engine.block_cache.fill(nullptr);
  engine.operation_cache.fill(nullptr);
  engine.kernel = begin_kernel(kernel, block, shared_bytes);
  engine.last = engine.last_but_one = nullptr;
  engine.lost = false;
  engine.grid = grid, engine.block = block;
  engine.enter = enter, engine.call = call;
  engine.first_block = state.blocks_started + 1;
  engine.releases.clear();
  engine.threads.resize(threads);  // run_block() makes them new
  engine.first_agent = static_cast<uint32_t>(threads);
  engine.warps.resize((threads + 31) / 32);

  Region fixed, dynamic;
  fixed.space = dynamic.space = Space::shared;
  fixed.index = kStaticShared, dynamic.index = kDynamicShared;
  std::tie(fixed.low, fixed.high) = thread_local_range(reinterpret_cast<const void*>(enter));
  fixed.outer_low = fixed.low, fixed.outer_high = fixed.high;
  constexpr size_t kGuard = 4096;
  std::vector<std::byte> memory;
  if (shared_bytes != 0) {
    memory.resize(shared_bytes + 2 * kGuard + 256);
    dynamic.low = (reinterpret_cast<uintptr_t>(memory.data()) + kGuard + 255) & ~uintptr_t{255};
    dynamic.high = dynamic.low + shared_bytes;
    dynamic.outer_low = dynamic.low - kGuard, dynamic.outer_high = dynamic.high + kGuard;
  }
  engine.static_shared = &fixed;
  engine.dynamic_shared = shared_bytes != 0 ? &dynamic : nullptr;
  engine.touched_shared_low = fixed.low,
  engine.touched_shared_high = fixed.high;  // the last launch may have used all of it

  const uint64_t running = state.options.sample == 0 ? blocks : std::min<uint64_t>(blocks, state.options.sample);
  for (uint64_t i = 0; i < running && !engine.lost; ++i) {
    const uint64_t number = running == blocks ? i : sampled_block(i, running, blocks);
    engine.block_index.x = static_cast<uint32_t>(number % grid.x);
    engine.block_index.y = static_cast<uint32_t>(number / grid.x % grid.y);
    engine.block_index.z = static_cast<uint32_t>(number / grid.x / grid.y);
    run_block();
  }
  state.kernels[static_cast<size_t>(engine.kernel)].grid_blocks += static_cast<int64_t>(blocks);

  if (engine.lost) {  // fibers are left in the middle of a thread: their stacks go, the kernel's locals need no
                      // destructor
    engine.fibers.clear();
    engine.idle.clear();
  }
  const int64_t started = int64_t{state.blocks_started} + 1 - engine.first_block;
  ++state.totals.launches;
  state.totals.blocks += started;
  state.kernels[static_cast<size_t>(engine.kernel)].blocks += started;
  state.kernels[static_cast<size_t>(engine.kernel)].warps += started * static_cast<int64_t>(engine.warps.size());
  state.totals.threads += started * static_cast<int64_t>(threads);
  state.totals.largest_shared_bytes = std::max(state.totals.largest_shared_bytes, static_cast<int64_t>(shared_bytes));
  state.totals.seconds += seconds_since(begin);
  engine.static_shared = engine.dynamic_shared = nullptr;
  engine.state = nullptr;
}

}  // namespace tenfold::simt
