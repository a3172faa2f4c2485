// What a kernel reads and calls: its indices, barriers, fences and atomics.
#include <algorithm>
#include <cstring>

#include "common/microscope/engine.h"

namespace tenfold::simt {

Index thread_index() { return engine.current->index; }
Index block_index() { return engine.block_index; }
Index block_size() { return {engine.block.x, engine.block.y, engine.block.z}; }
Index grid_size() { return {engine.grid.x, engine.grid.y, engine.grid.z}; }
void* dynamic_shared_memory() {
  return engine.dynamic_shared != nullptr ? pointer_to(engine.dynamic_shared->low) : nullptr;
}

void wait(Thread::At at, void* pc) {
  Thread& thread = *engine.current;
  thread.at = at;
  thread.pc = reinterpret_cast<uintptr_t>(pc);
  thread.fiber->suspend();
}

void block_barrier() { wait(Thread::At::barrier, __builtin_return_address(0)); }

int block_barrier_count(int predicate) {
  engine.barrier_predicates += predicate != 0;
  wait(Thread::At::barrier, __builtin_return_address(0));
  return engine.barrier_result;
}

uint64_t warp_exchange(WarpOp op, uint32_t mask, uint64_t value, Number number, int argument, int width) {
  Thread& thread = *engine.current;
  thread.op = op, thread.mask = mask, thread.value = value, thread.type = number, thread.width = width;
  thread.argument = argument & 31;  // the instruction takes five bits
  wait(Thread::At::warp, __builtin_return_address(0));
  return thread.result;
}

uint32_t active_lanes() {
  const size_t first = engine.current->number / 32 * 32U;
  uint32_t lanes = 0;
  const size_t end = std::min(first + 32, engine.rank * engine.apart + engine.threads_of_block);
  for (size_t lane = 0; first + lane < end; ++lane) {
    if (engine.threads[first + lane].at != Thread::At::done) lanes |= 1U << lane;
  }
  return lanes;
}

void end_launch() {
  engine.lost = true;
  for (;;) engine.current->fiber->suspend();  // once: nobody resumes it
}

void thread_fence() { engine.current->fenced = true; }

namespace {

template <class T>
uint64_t apply(void* address, AtomicOp op, uint64_t bits, uint64_t compare_bits) {
  T old;
  std::memcpy(&old, address, sizeof(T));
  const T value = from_bits<T>(bits);
  T now = old;
  switch (op) {
    case AtomicOp::add:
      now = static_cast<T>(old + value);
      break;
    case AtomicOp::exchange:
      now = value;
      break;
    case AtomicOp::compare_exchange:
      now = to_bits(old) == compare_bits ? value : old;
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
  }
  std::memcpy(address, &now, sizeof(T));
  return to_bits(old);
}

/// atomicAdd of two neighbours of 16 bits: each is rounded by itself. A float holds enough bits of their sum to round
/// it a second time without harm.
template <class Pair>
uint64_t add_pair(void* address, uint64_t bits) {
  uint32_t old = 0;
  std::memcpy(&old, address, sizeof(old));
  auto now = from_bits<Pair>(old);
  const auto value = from_bits<Pair>(bits);
  const auto sum = [](auto a, auto b) { return decltype(a)(static_cast<float>(a) + static_cast<float>(b)); };
  now.x = sum(now.x, value.x), now.y = sum(now.y, value.y);
  const auto sums = static_cast<uint32_t>(to_bits(now));
  std::memcpy(address, &sums, sizeof(sums));
  return old;
}

}  // namespace

uint64_t atomic(void* address, AtomicOp op, Number number, uint64_t value, uint64_t compare) {
  const int bytes = number == Number::f64 || number == Number::i64 || number == Number::u64 ? 8 : 4;
  const auto pc = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  if (!count_access(reinterpret_cast<uintptr_t>(address), bytes, Kind::atomic, static_cast<uint64_t>(pc) << 8, pc))
    return 0;
  if (number == Number::f16x2) return add_pair<__half2>(address, value);
  if (number == Number::bf16x2) return add_pair<__nv_bfloat162>(address, value);
  return with_type(number, [&]<class T>() { return apply<T>(address, op, value, compare); });
}

}  // namespace tenfold::simt
