// ldmatrix and mma.sync: instructions of a whole warp, whose operands lie spread over the registers of its 32 lanes.
// Which lane holds which element is from the PTX ISA, sections "ldmatrix" and "Matrix Fragments for mma.m16n8k16" and
// "mma.m16n8k8".
#include <bit>
#include <cstring>

#include "common/microscope/engine.h"

namespace tenfold::simt {
namespace {

/// What a lane brings to an ldmatrix. The row is null where the lane names none, or a bad one.
struct MatrixLoad {
  uint32_t* registers;
  const void* row;
  int count;
  bool transposed;
};

/// What a lane brings to an mma.
struct Multiply {
  MatrixType type;
  float* d;
  const uint32_t *a, *b;
  const float* c;
};

void wait_for_warp(WarpOp op, void* operands, void* pc) {
  Thread& thread = *engine.current;
  thread.op = op, thread.mask = 0xffffffffU, thread.value = reinterpret_cast<uintptr_t>(operands);
  wait(Thread::At::warp, pc);
}

template <class T>
const T& operands_of(const Thread* thread) {
  return *static_cast<const T*>(pointer_to(thread->value));
}

/// Element `column` of a row of eight 16-bit elements; NaN where there is no row.
uint32_t element(const void* row, int column) {
  uint16_t bits = 0xffff;
  if (row != nullptr) std::memcpy(&bits, static_cast<const std::byte*>(row) + 2 * column, sizeof bits);
  return bits;
}

void load(const std::array<Thread*, 32>& lanes) {
  const auto row = [&](int matrix, int r) {
    const auto lane = static_cast<size_t>(8) * static_cast<size_t>(matrix) + static_cast<size_t>(r);
    return operands_of<MatrixLoad>(lanes[lane]).row;
  };
  for (int lane = 0; lane < 32; ++lane) {
    const auto& mine = operands_of<MatrixLoad>(lanes[static_cast<size_t>(lane)]);
    const int long_way = lane / 4, short_way = lane % 4 * 2;
    for (int matrix = 0; matrix < mine.count; ++matrix) {
      const uint32_t low =
          mine.transposed ? element(row(matrix, short_way), long_way) : element(row(matrix, long_way), short_way);
      const uint32_t high = mine.transposed ? element(row(matrix, short_way + 1), long_way)
                                            : element(row(matrix, long_way), short_way + 1);
      mine.registers[matrix] = high << 16 | low;
    }
  }
}

/// Element `half` of a register; tf32 has one element in each.
double number(MatrixType type, uint32_t bits, int half) {
  if (type == MatrixType::tf32)
    return static_cast<double>(std::bit_cast<float>(bits & 0xffffe000U));  // 10 bits of mantissa are looked at
  const uint32_t mine = half == 0 ? bits & 0xffffU : bits >> 16;
  if (type == MatrixType::bf16) return static_cast<double>(std::bit_cast<float>(mine << 16));
  return static_cast<double>(__half2float(__half(__half_raw{static_cast<uint16_t>(mine)})));
}

void multiply(const std::array<Thread*, 32>& lanes) {
  constexpr int kRows = 16, kColumns = 8, kMostDepth = 16;
  double a[kRows][kMostDepth], b[kMostDepth][kColumns];
  const MatrixType type = operands_of<Multiply>(lanes[0]).type;
  const int per_register = type == MatrixType::tf32 ? 1 : 2, depth = 8 * per_register;
  for (int lane = 0; lane < 32; ++lane) {
    const auto& mine = operands_of<Multiply>(lanes[static_cast<size_t>(lane)]);
    const int group = lane / 4, in_group = lane % 4;
    for (int half = 0; half < per_register; ++half) {
      const int k = in_group * per_register + half;  // and 4 * per_register on in the second half of the registers
      for (int r = 0; r < 4; ++r) a[group + r % 2 * 8][k + r / 2 * 4 * per_register] = number(type, mine.a[r], half);
      for (int r = 0; r < 2; ++r) b[k + r * 4 * per_register][group] = number(type, mine.b[r], half);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    const auto& mine = operands_of<Multiply>(lanes[static_cast<size_t>(lane)]);
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      double sum = 0;
      for (int k = 0; k < depth; ++k) sum += a[row][k] * b[k][column];
      mine.d[i] = static_cast<float>(static_cast<double>(mine.c[i]) + sum);
    }
  }
  ++engine.state->totals.matrix_multiplies;
  engine.state->totals.tensor_flops += int64_t{2} * kRows * kColumns * depth;
}

}  // namespace

void load_matrices(uint32_t* registers, const void* row, int count, bool transposed) {
  void* const pc = __builtin_return_address(0);
  MatrixLoad operands{registers, nullptr, count, transposed};
  if (engine.current->number % 32 < 8 * count) {
    const auto at = reinterpret_cast<uintptr_t>(row), from = reinterpret_cast<uintptr_t>(pc);
    const Region* region = region_of(at);
    if (region == nullptr || region->space != Space::shared) {
      note_fault(FaultKind::out_of_bounds, from, "ldmatrix reads a row that is not in shared memory");
    } else if (count_access(at, 16, Kind::load, static_cast<uint64_t>(from) << 8, from)) {
      operands.row = row;
    }
  }
  wait_for_warp(WarpOp::load_matrices, &operands, pc);
}

void multiply_matrices(MatrixType type, float* d, const uint32_t* a, const uint32_t* b, const float* c) {
  Multiply operands{type, d, a, b, c};
  wait_for_warp(WarpOp::multiply, &operands, __builtin_return_address(0));
}

void complete_matrix_operation(const std::array<Thread*, 32>& lanes, uint32_t group) {
  const Thread& first = *lanes[static_cast<size_t>(std::countr_zero(group))];
  if (group != 0xffffffffU) {
    note_fault(FaultKind::warp_mismatch, first.pc,
               "needs all 32 lanes of a warp, and only those of mask " + hex(group) + " come here");
    return;  // what the lanes hold stays as it is
  }
  for (const Thread* lane : lanes) {
    if (lane->pc != first.pc && where_is(lane->pc) != where_is(first.pc)) {
      note_fault(FaultKind::warp_mismatch, lane->pc,
                 "other lanes of the warp are at another such instruction, " + text_of(where_is(first.pc)));
      return;
    }
  }
  if (first.op == WarpOp::multiply) {
    multiply(lanes);
  } else {
    load(lanes);
  }
}

}  // namespace tenfold::simt
