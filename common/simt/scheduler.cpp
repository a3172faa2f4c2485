// Lets the threads of a block take turns: each runs to its next barrier or warp operation, warp by warp, block by block.
#include "engine.h"

#include <link.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace tenfold::simt {

// --- what a kernel reads and calls -------------------------------------------------------------------------------
Index thread_index() { return engine.current->index; }
Index block_index() { return engine.block_index; }
Index block_size() { return {engine.block.x, engine.block.y, engine.block.z}; }
Index grid_size() { return {engine.grid.x, engine.grid.y, engine.grid.z}; }
void* dynamic_shared_memory() { return engine.dynamic_shared != nullptr ? reinterpret_cast<void*>(engine.dynamic_shared->low) : nullptr; }

namespace {

/// Gives the turn back until the scheduler says that what the thread waits for has come.
void wait(Thread::At at, void* pc) {
  Thread& thread = *engine.current;
  thread.at = at;
  thread.pc = reinterpret_cast<uintptr_t>(pc);
  thread.fiber->suspend();
}

}  // namespace

void block_barrier() { wait(Thread::At::barrier, __builtin_return_address(0)); }

int block_barrier_count(int predicate) {
  engine.barrier_predicates += predicate != 0;
  wait(Thread::At::barrier, __builtin_return_address(0));
  return engine.barrier_result;
}

uint64_t warp_exchange(WarpOp op, uint32_t mask, uint64_t value, Number number, int argument, int width) {
  Thread& thread = *engine.current;
  thread.op = op, thread.mask = mask, thread.value = value, thread.type = number, thread.argument = argument, thread.width = width;
  wait(Thread::At::warp, __builtin_return_address(0));
  return thread.result;
}

uint32_t active_lanes() {
  const size_t first = engine.current->number / 32 * 32U;
  uint32_t lanes = 0;
  for (size_t lane = 0; lane < 32 && first + lane < engine.threads.size(); ++lane) {
    if (engine.threads[first + lane].at != Thread::At::done) lanes |= 1U << lane;
  }
  return lanes;
}

void thread_fence() { engine.current->fenced = true; }

namespace {

template <class T>
uint64_t apply(void* address, AtomicOp op, uint64_t bits, uint64_t compare_bits) {
  T old;
  std::memcpy(&old, address, sizeof(T));
  const T value = from_bits<T>(bits), compare = from_bits<T>(compare_bits);
  T now = old;
  switch (op) {
    case AtomicOp::add:
      now = static_cast<T>(old + value);
      break;
    case AtomicOp::exchange:
      now = value;
      break;
    case AtomicOp::compare_exchange:
      now = std::memcmp(&old, &compare, sizeof(T)) == 0 ? value : old;
      break;
    case AtomicOp::min:
      now = std::min(old, value);
      break;
    case AtomicOp::max:
      now = std::max(old, value);
      break;
    case AtomicOp::increment:
      now = old >= value ? T() : static_cast<T>(old + 1);
      break;
    default:
      if constexpr (std::is_integral_v<T>) {
        now = op == AtomicOp::bit_and ? old & value : op == AtomicOp::bit_or ? old | value : old ^ value;
      }
  }
  std::memcpy(address, &now, sizeof(T));
  return to_bits(old);
}

/// Calls `f.operator()<T>()` for the type.
template <class F>
uint64_t with_type(Number number, F&& f) {
  switch (number) {
    case Number::f32:
      return f.template operator()<float>();
    case Number::f64:
      return f.template operator()<double>();
    case Number::i32:
      return f.template operator()<int32_t>();
    case Number::u32:
      return f.template operator()<uint32_t>();
    case Number::i64:
      return f.template operator()<int64_t>();
    default:
      return f.template operator()<uint64_t>();
  }
}

}  // namespace

uint64_t atomic(void* address, AtomicOp op, Number number, uint64_t value, uint64_t compare) {
  const int bytes = number == Number::f32 || number == Number::i32 || number == Number::u32 ? 4 : 8;
  const auto pc = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  const auto at = reinterpret_cast<uintptr_t>(address);
  Region* region = region_of(at);
  if (region != nullptr && region->space == Space::global) publish_and_learn(at);
  count_access(at, bytes, Kind::atomic, static_cast<uint64_t>(pc) << 8, pc);
  if (region != nullptr && (at < region->low || at + static_cast<uintptr_t>(bytes) > region->high)) return 0;
  return with_type(number, [&]<class T>() { return apply<T>(address, op, value, compare); });
}

void note_fault(FaultKind kind, uintptr_t pc, const std::string& text) {
  Fault& fault = engine.state->faults[{kind, pc}];
  if (fault.count++ != 0) return;
  fault.kind = kind;
  fault.where = where_is(pc);
  fault.text = text;
}

// --- warp operations ---------------------------------------------------------------------------------------------
namespace {

std::string hex(uint32_t mask) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", mask);
  return text;
}

/// What each lane of the group gets. `lanes` points at the warp's 32 threads, null where the block has none.
void exchange(const std::array<Thread*, 32>& lanes, uint32_t group) {
  const Thread& any = *lanes[static_cast<size_t>(std::countr_zero(group))];
  const WarpOp op = any.op;
  uint64_t common = 0;  // of operations that give every lane the same
  const auto for_each = [&](auto&& f) {
    for (uint32_t left = group; left != 0; left &= left - 1) f(std::countr_zero(left), *lanes[static_cast<size_t>(std::countr_zero(left))]);
  };
  switch (op) {
    case WarpOp::ballot:
      for_each([&](int lane, Thread& t) { common |= t.value != 0 ? uint64_t{1} << lane : 0; });
      break;
    case WarpOp::any:
      for_each([&](int, Thread& t) { common |= static_cast<uint64_t>(t.value != 0); });
      break;
    case WarpOp::all:
      common = 1;
      for_each([&](int, Thread& t) { common &= static_cast<uint64_t>(t.value != 0); });
      break;
    case WarpOp::add:
    case WarpOp::min:
    case WarpOp::max:
      common = with_type(any.type, [&]<class T>() {
        bool first = true;
        T sum{};
        for_each([&](int, Thread& t) {
          const T value = from_bits<T>(t.value);
          sum = first               ? value
                : op == WarpOp::add ? static_cast<T>(sum + value)
                : op == WarpOp::min ? std::min(sum, value)
                                    : std::max(sum, value);
          first = false;
        });
        return to_bits(sum);
      });
      break;
    default:
      break;
  }
  for_each([&](int lane, Thread& t) {
    t.result = common;
    const int segment = lane / t.width * t.width;
    int from = lane;
    switch (op) {
      case WarpOp::shuffle:
        from = segment + (t.argument & (t.width - 1));
        break;
      case WarpOp::shuffle_up:
        from = lane - t.argument < segment ? lane : lane - t.argument;
        break;
      case WarpOp::shuffle_down:
        from = lane + t.argument >= segment + t.width ? lane : lane + t.argument;
        break;
      case WarpOp::shuffle_xor:
        from = (lane ^ t.argument) >= segment + t.width ? lane : lane ^ t.argument;
        break;
      case WarpOp::match_any:
        t.result = 0;
        for_each([&](int other, const Thread& o) { t.result |= o.value == t.value ? uint64_t{1} << other : 0; });
        return;
      default:
        return;
    }
    if ((group >> from & 1) != 0) {
      t.result = lanes[static_cast<size_t>(from)]->value;
    } else {
      // Undefined on a GPU. A value that no test can take for right, and the line.
      t.result = std::numeric_limits<uint64_t>::max();
      note_fault(
          FaultKind::warp_mismatch, t.pc,
          "lane " + std::to_string(lane) + " reads from lane " + std::to_string(from) + ", which takes no part (mask " + hex(t.mask) + ")");
    }
  });
}

/// Completes every warp operation whose lanes have all come. True when a lane can go on.
bool complete_warp_operations(const std::array<Thread*, 32>& lanes, Warp& warp) {
  bool progress = false;
  uint32_t live = 0;
  for (size_t lane = 0; lane < 32; ++lane) {
    if (lanes[lane] != nullptr && lanes[lane]->at != Thread::At::done) live |= 1U << lane;
  }
  for (size_t lane = 0; lane < 32; ++lane) {
    Thread* thread = lanes[lane];
    if (thread == nullptr || thread->at != Thread::At::warp) continue;
    const uint32_t wanted = thread->mask & live;
    if ((thread->mask >> lane & 1) == 0) {
      note_fault(FaultKind::warp_mismatch, thread->pc, "lane " + std::to_string(lane) + " is not in its own mask " + hex(thread->mask));
      engine.lost = true;
      return false;
    }
    uint32_t here = 0;
    for (size_t other = 0; other < 32; ++other) {
      const Thread* o = lanes[other];
      if (o != nullptr && o->at == Thread::At::warp && o->op == thread->op && o->mask == thread->mask) here |= 1U << other;
    }
    if ((here & wanted) != wanted) continue;
    exchange(lanes, wanted);
    if (thread->op == WarpOp::sync && wanted == live) ++warp.sync;
    ++engine.state->totals.warp_operations;
    for (size_t other = 0; other < 32; ++other) {
      if ((wanted >> other & 1) != 0) lanes[other]->at = Thread::At::running;
    }
    progress = true;
  }
  return progress;
}

// --- turns -------------------------------------------------------------------------------------------------------
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

/// Runs a warp until each of its threads waits at a barrier, waits for a lane that does not come, or is done.
void run_warp(size_t number) {
  engine.current_warp = &engine.warps[number];
  std::array<Thread*, 32> lanes{};
  for (size_t lane = 0; lane < 32 && number * 32 + lane < engine.threads.size(); ++lane) lanes[lane] = &engine.threads[number * 32 + lane];
  do {
    for (Thread* thread : lanes) {
      if (thread != nullptr && (thread->at == Thread::At::start || thread->at == Thread::At::running)) turn(*thread);
    }
    flush_warp();
  } while (complete_warp_operations(lanes, engine.warps[number]));
}

/// After every warp had its turn: opens the barrier, or says why nobody can go on. False when the block is over.
bool next_phase() {
  const Thread* waiting = nullptr;
  for (const Thread& thread : engine.threads) {
    if (thread.at == Thread::At::warp) {
      note_fault(FaultKind::deadlock, thread.pc,
                 "lane " + std::to_string(thread.number % 32) + " waits for lanes of mask " + hex(thread.mask) + " that never come here");
      engine.lost = true;
    }
    if (thread.at != Thread::At::barrier) continue;
    if (waiting != nullptr && waiting->pc != thread.pc) {
      const Where other = where_is(waiting->pc);
      note_fault(FaultKind::divergent_barrier, thread.pc, "some threads of the block wait at another __syncthreads, " + text_of(other));
    }
    waiting = waiting != nullptr ? waiting : &thread;
  }
  if (engine.lost || waiting == nullptr) return false;
  const auto done = std::count_if(engine.threads.begin(), engine.threads.end(), [](const Thread& t) { return t.at == Thread::At::done; });
  if (done != 0) {
    note_fault(FaultKind::divergent_barrier, waiting->pc,
               std::to_string(done) + " of " + std::to_string(engine.threads.size()) + " threads never reach this __syncthreads");
  }
  for (Thread& thread : engine.threads) {
    if (thread.at == Thread::At::barrier) thread.at = Thread::At::running;
  }
  engine.barrier_result = std::exchange(engine.barrier_predicates, 0);
  ++engine.barrier;
  ++engine.state->totals.barriers;
  return true;
}

/// NaN everywhere in shared memory: a block must not read what the one before it left.
void forget_shared() {
  const auto fill = [](uintptr_t low, uintptr_t high) {
    if (low < high) std::memset(reinterpret_cast<void*>(low), 0xff, high - low);
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
  for (Warp& warp : engine.warps) warp = {};
  for (size_t i = 0; i < engine.threads.size(); ++i) {
    Thread& thread = engine.threads[i];
    const auto number = static_cast<uint32_t>(i);
    thread = {};
    thread.number = static_cast<uint16_t>(i);
    thread.index = {number % engine.block.x, number / engine.block.x % engine.block.y, number / engine.block.x / engine.block.y};
  }
  forget_shared();
  do {
    for (size_t warp = 0; warp < engine.warps.size() && !engine.lost; ++warp) run_warp(warp);
  } while (next_phase());
}

/// Where this core's copy of the kernel library's `__shared__` arrays lies: the thread-local storage of the library that
/// holds the kernel.
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

std::string text_of(dim3 d) { return "(" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ")"; }

}  // namespace

void run_grid(Device& device, dim3 grid, dim3 block, size_t shared_bytes, void (*enter)(const void*), const void* call) {
  constexpr size_t kMostShared = 227 * 1024;  // Hopper's, the largest there is
  const uint64_t threads = uint64_t{block.x} * block.y * block.z, blocks = uint64_t{grid.x} * grid.y * grid.z;
  require(threads >= 1 && threads <= 1024 && block.z <= 64, "block " + text_of(block) + " must have 1 to 1024 threads, at most 64 in z");
  require(blocks >= 1 && grid.x <= 0x7fffffffU && grid.y <= 65535 && grid.z <= 65535,
          "grid " + text_of(grid) + " must have at least one block, at most 65535 in y and z");
  require(shared_bytes <= kMostShared,
          std::to_string(shared_bytes) + " bytes of shared memory are more than any GPU's " + std::to_string(kMostShared));

  const std::lock_guard one(engine.one_launch);
  Device::State& state = Engine::state_of(device);
  const auto begin = std::chrono::steady_clock::now();
  engine.state = &state;
  engine.site_cache.fill(nullptr);
  engine.last = nullptr;
  engine.lost = false;
  engine.grid = grid, engine.block = block;
  engine.enter = enter, engine.call = call;
  engine.first_block = state.blocks_started + 1;
  engine.releases.clear();
  engine.threads.assign(threads, {});
  engine.warps.assign((threads + 31) / 32, {});

  Region fixed, dynamic;
  fixed.space = dynamic.space = Space::shared;
  fixed.index = -1, dynamic.index = -2;
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
  engine.touched_shared_low = fixed.low, engine.touched_shared_high = fixed.high;  // the last launch may have used all of it

  for (engine.block_index.z = 0; engine.block_index.z < grid.z; ++engine.block_index.z) {
    for (engine.block_index.y = 0; engine.block_index.y < grid.y; ++engine.block_index.y) {
      for (engine.block_index.x = 0; engine.block_index.x < grid.x && !engine.lost; ++engine.block_index.x) run_block();
    }
  }

  if (engine.lost) {  // fibers are left in the middle of a thread: their stacks go, the kernel's locals need no destructor
    engine.fibers.clear();
    engine.idle.clear();
  }
  ++state.totals.launches;
  state.totals.blocks += state.blocks_started - engine.first_block + 1;
  state.totals.threads += static_cast<int64_t>(state.blocks_started - engine.first_block + 1) * static_cast<int64_t>(threads);
  state.totals.largest_shared_bytes = std::max(state.totals.largest_shared_bytes, static_cast<int64_t>(shared_bytes));
  state.totals.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  engine.static_shared = engine.dynamic_shared = nullptr;
  engine.state = nullptr;
}

}  // namespace tenfold::simt
