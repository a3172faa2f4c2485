// ldmatrix and mma.sync: instructions of a whole warp, whose operands lie spread over the registers of its 32 lanes.
// Which lane holds which element is from the PTX ISA, sections "ldmatrix" and "Matrix Fragments for mma.m16n8k16",
// "mma.m16n8k8" and "mma.m16n8k32".
#include <cuda_fp8.h>

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

/// What a lane brings to an mma. c and d are int of s8, float of all others.
struct Multiply {
  MatrixType type;
  void* d;
  const uint32_t *a, *b;
  const void* c;
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

int elements_of_register(MatrixType type) {
  switch (type) {
    case MatrixType::tf32:
      return 1;
    case MatrixType::bf16:
    case MatrixType::f16:
      return 2;
    default:
      return 4;
  }
}

/// Element `index` of a register, the first one in the lowest bits.
double number(MatrixType type, uint32_t bits, int index) {
  switch (type) {
    case MatrixType::tf32:
      return static_cast<double>(std::bit_cast<float>(bits & 0xffffe000U));  // 10 bits of mantissa are looked at
    case MatrixType::bf16:
      return static_cast<double>(std::bit_cast<float>(bits >> 16 * index << 16));
    case MatrixType::f16:
      return static_cast<double>(__half2float(__half(__half_raw{static_cast<uint16_t>(bits >> 16 * index)})));
    case MatrixType::s8:
      return static_cast<double>(static_cast<int8_t>(bits >> 8 * index));
    default:
      return static_cast<double>(
          __half2float(__half(__nv_cvt_fp8_to_halfraw(static_cast<uint8_t>(bits >> 8 * index), __NV_E4M3))));
  }
}

void multiply(const std::array<Thread*, 32>& lanes) {
  constexpr int kRows = 16, kColumns = 8, kMostDepth = 32;
  double a[kRows][kMostDepth], b[kMostDepth][kColumns];
  const MatrixType type = operands_of<Multiply>(lanes[0]).type;
  const int per_register = elements_of_register(type), depth = 8 * per_register;
  for (int lane = 0; lane < 32; ++lane) {
    const auto& mine = operands_of<Multiply>(lanes[static_cast<size_t>(lane)]);
    const int group = lane / 4, in_group = lane % 4;
    for (int index = 0; index < per_register; ++index) {
      const int k = in_group * per_register + index;  // and 4 * per_register on in the second half of the registers
      for (int r = 0; r < 4; ++r) a[group + r % 2 * 8][k + r / 2 * 4 * per_register] = number(type, mine.a[r], index);
      for (int r = 0; r < 2; ++r) b[k + r * 4 * per_register][group] = number(type, mine.b[r], index);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    const auto& mine = operands_of<Multiply>(lanes[static_cast<size_t>(lane)]);
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      double sum = 0;
      for (int k = 0; k < depth; ++k) sum += a[row][k] * b[k][column];
      if (type == MatrixType::s8) {
        const int64_t exact = static_cast<const int*>(mine.c)[i] + static_cast<int64_t>(sum);
        static_cast<int*>(mine.d)[i] = static_cast<int>(static_cast<uint32_t>(exact));
      } else {
        const double exact = static_cast<double>(static_cast<const float*>(mine.c)[i]) + sum;
        static_cast<float*>(mine.d)[i] = static_cast<float>(exact);
      }
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

void multiply_matrices(MatrixType type, int* d, const uint32_t* a, const uint32_t* b, const int* c) {
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
