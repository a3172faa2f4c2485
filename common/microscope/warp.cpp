// Shuffles, votes and reductions: what the lanes of a warp give and get when all that must come have come.
#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <limits>

#include "common/microscope/engine.h"

namespace tenfold::simt {

std::string hex(uint64_t value, int digits) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%0*" PRIx64, digits, value);
  return text;
}

namespace {

/// What each lane of the group gets. `lanes` points at the warp's 32 threads, null where the block has none.
void exchange(const std::array<Thread*, 32>& lanes, uint32_t group) {
  const Thread& any = *lanes[static_cast<size_t>(std::countr_zero(group))];
  const WarpOp op = any.op;
  uint64_t common = 0;  // of operations that give every lane the same
  const auto for_each = [&](auto&& f) {
    for (uint32_t left = group; left != 0; left &= left - 1)
      f(std::countr_zero(left), *lanes[static_cast<size_t>(std::countr_zero(left))]);
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
      note_fault(FaultKind::warp_mismatch, t.pc,
                 "lane " + std::to_string(lane) + " reads from lane " + std::to_string(from) +
                     ", which takes no part (mask " + hex(t.mask) + ")");
    }
  });
}

}  // namespace

const char* name_of(WarpOp op) {
  switch (op) {
    case WarpOp::shuffle:
    case WarpOp::shuffle_up:
    case WarpOp::shuffle_down:
    case WarpOp::shuffle_xor:
      return "shuffle";
    case WarpOp::sync:
      return "warp barrier";
    case WarpOp::match_any:
      return "match";
    case WarpOp::add:
    case WarpOp::min:
    case WarpOp::max:
      return "reduction";
    case WarpOp::load_matrices:
      return "ldmatrix";
    case WarpOp::multiply:
      return "mma";
    default:
      return "vote";
  }
}

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
      note_fault(FaultKind::warp_mismatch, thread->pc,
                 "lane " + std::to_string(lane) + " is not in its own mask " + hex(thread->mask));
      engine.lost = true;
      return false;
    }
    uint32_t here = 0;
    for (size_t other = 0; other < 32; ++other) {
      const Thread* o = lanes[other];
      if (o != nullptr && o->at == Thread::At::warp && o->op == thread->op && o->mask == thread->mask)
        here |= 1U << other;
    }
    if ((here & wanted) != wanted) continue;
    if (thread->op == WarpOp::load_matrices || thread->op == WarpOp::multiply) {
      complete_matrix_operation(lanes, wanted);
      count_operation(thread->pc, name_of(thread->op));
    } else {
      exchange(lanes, wanted);
      if (thread->op == WarpOp::sync) synchronise_lanes(warp, wanted, live);
      ++engine.state->totals.warp_operations;
      count_operation(thread->pc, name_of(thread->op));
    }
    for (size_t other = 0; other < 32; ++other) {
      if ((wanted >> other & 1) != 0) lanes[other]->at = Thread::At::running;
    }
    progress = true;
  }
  return progress;
}

}  // namespace tenfold::simt
