// Lets the threads of a block take turns: each runs to its next barrier or warp operation, warp by warp, block by
// block.
#include <link.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>

#include "common/base/seconds_since.h"
#include "common/microscope/cluster.h"

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
    leave_cluster_barrier(*engine.current);
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
  const size_t end = engine.rank * engine.apart + engine.threads_of_block;
  for (size_t lane = 0; lane < 32 && number * 32 + lane < end; ++lane)
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

/// The threads of the block that has its turn.
std::span<Thread> threads_of_block() {
  return std::span(engine.threads).subspan(engine.rank * engine.apart, engine.threads_of_block);
}

/// Until no warp of the block can go on without a barrier of it, or without another block. True when a thread went on.
bool run_warps() {
  const size_t first = engine.rank * engine.apart / 32, end = first + (engine.threads_of_block + 31) / 32;
  bool went_on = false, any = true;
  while (any && !engine.lost) {
    any = false;
    for (size_t warp = first; warp < end && !engine.lost; ++warp) any |= run_warp(warp);
    went_on |= any;
    if (engine.mbarriers.empty() && engine.agents.empty() && engine.named_barriers.empty() &&
        engine.cluster.size() == 1)
      break;  // no warp waits for another
  }
  return went_on;
}

bool waits_elsewhere(const Thread& thread) {
  return thread.at == Thread::At::warp || thread.at == Thread::At::mbarrier || thread.at == Thread::At::warpgroup ||
         thread.at == Thread::At::cluster || thread.at == Thread::At::named_barrier;
}

/// Opens the block's barrier if nobody is left who might come to it. False when nobody waits there, or somebody may
/// come.
bool open_barrier() {
  if (engine.lost) return false;
  const std::span<Thread> threads = threads_of_block();
  if (std::ranges::any_of(threads, waits_elsewhere)) return false;
  const Thread* waiting = nullptr;
  for (const Thread& thread : threads) {
    if (thread.at != Thread::At::barrier) continue;
    // The compiler may make two calls of one __syncthreads in the source.
    if (waiting != nullptr && waiting->pc != thread.pc && where_is(waiting->pc) != where_is(thread.pc)) {
      note_fault(FaultKind::divergent_barrier, thread.pc,
                 "some threads of the block wait at another __syncthreads, " + text_of(where_is(waiting->pc)));
    }
    waiting = waiting != nullptr ? waiting : &thread;
  }
  if (waiting == nullptr) return false;
  const auto done = std::ranges::count(threads, Thread::At::done, &Thread::at);
  if (done != 0) {
    note_fault(
        FaultKind::divergent_barrier, waiting->pc,
        std::to_string(done) + " of " + std::to_string(threads.size()) + " threads never reach this __syncthreads");
  }
  for (Thread& thread : threads) {
    if (thread.at == Thread::At::barrier) thread.at = Thread::At::running;
  }
  engine.barrier_result = std::exchange(engine.barrier_predicates, 0);
  ++engine.barrier;
  share_known();
  if (engine.state->options.reuse) end_of_phase();
  ++engine.state->totals.barriers;
  count_operation(waiting->pc, "barrier");
  return true;
}

/// Nobody in the cluster can go on: says what each thread of the block that has its turn waits for.
void note_deadlocks() {
  for (const Thread& thread : threads_of_block()) {
    if (!waits_elsewhere(thread)) continue;
    note_fault(FaultKind::deadlock, thread.pc,
               thread.at == Thread::At::warp
                   ? "lane " + std::to_string(thread.number % 32) + " waits for lanes of mask " + hex(thread.mask) +
                         " that never come here"
                   : missing(thread));
    engine.lost = true;
  }
}

/// Runs the block that has its turn as far as it can. True when a thread went on.
bool run_block() {
  bool went_on = false;
  do {
    went_on |= run_warps();
  } while (open_barrier());
  const bool done =
      std::ranges::all_of(threads_of_block(), [](const Thread& thread) { return thread.at == Thread::At::done; });
  if (done && !engine.lost && !engine.cluster[engine.rank].ended) end_block();
  return went_on;
}

void run_cluster(uint64_t first) {
  auto& state = *engine.state;
  begin_cluster(first);
  engine.agents.clear();
  engine.mbarriers.clear();
  engine.named_barriers.clear();
  engine.warpgroups.assign(engine.threads.size() / 128, {});
  for (Warp& warp : engine.warps) warp = {};
  for (size_t i = 0; i < engine.threads.size(); ++i) {
    Thread& thread = engine.threads[i];
    const auto number = static_cast<uint32_t>(i % engine.apart);
    thread = {};
    thread.number = static_cast<uint16_t>(i);
    thread.index = {number % engine.block.x, number / engine.block.x % engine.block.y,
                    number / engine.block.x / engine.block.y};
  }
  const size_t blocks = engine.cluster.size();
  for (bool any = true; any && !engine.lost;) {
    any = false;
    for (size_t rank = 0; rank < blocks && !engine.lost; ++rank) {
      turn_to(rank);
      any |= run_block();
    }
    any &= blocks != 1;  // one that is alone has gone as far as it can
  }
  const bool ended_early = engine.lost;
  for (size_t rank = 0; rank < blocks && !ended_early; ++rank) {
    turn_to(rank);
    note_deadlocks();
  }
  for (size_t rank = 0; rank < blocks && state.options.reuse; ++rank) {
    turn_to(rank);
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
uint64_t sampled_cluster(uint64_t i, uint64_t running, uint64_t clusters) {
  if (clusters < 8 * running) return i * clusters / running;
  const double place = 0.5 + static_cast<double>(i) * 0.6180339887498949;
  return static_cast<uint64_t>((place - std::floor(place)) * static_cast<double>(clusters));
}

}  // namespace

void run_grid(Device& device, dim3 grid, dim3 block, unsigned cluster, size_t shared_bytes, const void* kernel,
              void (*enter)(const void*), const void* call) {
  constexpr size_t kMostShared = 227 * 1024;  // Hopper's, the largest there is
  constexpr unsigned kMostBlocks = 8;         // of a cluster that every GPU with clusters takes
  const uint64_t threads = uint64_t{block.x} * block.y * block.z, blocks = uint64_t{grid.x} * grid.y * grid.z;
  require(threads >= 1 && threads <= 1024 && block.z <= 64,
          "block " + text_of(block) + " must have 1 to 1024 threads, at most 64 in z");
  require(blocks >= 1 && grid.x <= 0x7fffffffU && grid.y <= 65535 && grid.z <= 65535,
          "grid " + text_of(grid) + " must have at least one block, at most 65535 in y and z");
  require(
      shared_bytes <= kMostShared,
      std::to_string(shared_bytes) + " bytes of shared memory are more than any GPU's " + std::to_string(kMostShared));

  require(cluster >= 1 && cluster <= kMostBlocks && grid.x % cluster == 0,
          "clusters of " + std::to_string(cluster) + " blocks, which must be 1 to " + std::to_string(kMostBlocks) +
              " and divide the grid's " + std::to_string(grid.x));

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
  // Blocks of a cluster begin with a warpgroup of their own; the threads in between never run.
  engine.threads_of_block = threads, engine.apart = cluster == 1 ? threads : (threads + 127) / 128 * 128;
  engine.threads.resize(cluster * engine.apart);  // run_cluster() makes them new
  engine.first_agent = static_cast<uint32_t>(engine.threads.size());
  const size_t warps_of_block = (threads + 31) / 32;
  engine.warps.resize((engine.threads.size() + 31) / 32);

  const auto [low, high] = thread_local_range(reinterpret_cast<const void*>(enter));
  engine.cluster.clear();
  for (size_t i = 0; i < cluster; ++i) {
    constexpr size_t kGuard = 4096;
    ClusterBlock& one_block = engine.cluster.emplace_back();
    Region &fixed = one_block.fixed, &dynamic = one_block.dynamic;
    fixed.space = dynamic.space = Space::shared;
    fixed.index = kStaticShared, dynamic.index = kDynamicShared;
    fixed.block = dynamic.block = i;
    fixed.low = fixed.outer_low = low, fixed.high = fixed.outer_high = high;
    if (shared_bytes == 0) continue;
    one_block.memory.resize(shared_bytes + 2 * kGuard + 256);
    dynamic.low = (reinterpret_cast<uintptr_t>(one_block.memory.data()) + kGuard + 255) & ~uintptr_t{255};
    dynamic.high = dynamic.low + shared_bytes;
    dynamic.outer_low = dynamic.low - kGuard, dynamic.outer_high = dynamic.high + kGuard;
  }
  engine.static_shared = &engine.cluster[0].fixed;
  engine.touched_shared_low = low, engine.touched_shared_high = high;  // the last launch may have used all of it

  const uint64_t clusters = blocks / cluster, sample = (state.options.sample + cluster - 1) / cluster;
  const uint64_t running = state.options.sample == 0 ? clusters : std::min<uint64_t>(clusters, sample);
  for (uint64_t i = 0; i < running && !engine.lost; ++i)
    run_cluster((running == clusters ? i : sampled_cluster(i, running, clusters)) * cluster);
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
  state.kernels[static_cast<size_t>(engine.kernel)].warps += started * static_cast<int64_t>(warps_of_block);
  state.totals.threads += started * static_cast<int64_t>(threads);
  state.totals.largest_shared_bytes = std::max(state.totals.largest_shared_bytes, static_cast<int64_t>(shared_bytes));
  state.totals.seconds += seconds_since(begin);
  engine.static_shared = engine.dynamic_shared = nullptr;
  engine.cluster.clear();
  engine.state = nullptr;
}

}  // namespace tenfold::simt
