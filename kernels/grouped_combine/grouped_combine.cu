#include "grouped_combine.h"

#include "grouped_combine.cuh"

#include <stdexcept>
#include <string>

namespace tenfold::kernels {
namespace {

constexpr const char* kName = "grouped_combine";
/// Twice as many, an index and a step behind the last tile, still fit in an int.
constexpr int64_t kMost = int64_t{1} << 30;

[[noreturn]] void refuse(const std::string& reason) { throw std::invalid_argument(std::string(kName) + ": " + reason); }

void check_size(const char* name, int64_t size, int64_t least, int64_t most = kMost) {
  if (size < least || size > most) {
    refuse(std::string(name) + " = " + std::to_string(size) + " is not in " + std::to_string(least) + " .. " +
           std::to_string(most));
  }
}

/// `columns`: of what the tiles are of.
void check(const CombineShape& shape, int64_t columns, int64_t blocks) {
  check_size("tokens", shape.tokens, 0);
  check_size("active", shape.active, 1, 32);  // a token's rows are one for each lane
  check_size("experts", shape.experts, 1);
  check_size("depth", shape.depth, 1);
  check_size("columns", shape.columns, 1);
  check_size("rows", shape.rows(), 0);
  check_size("blocks", blocks, 1);
  if (most_row_tiles(shape.rows(), shape.experts) > kMost / grouped_tiles(columns)) refuse("too many tiles");
}

template <class T>
constexpr size_t kSharedBytes = kGroupedStages * kGroupedStage * sizeof(T);

constexpr int kThreads = 256;

template <class T, class AnyStream>
void zero(AnyStream stream, T* values, int64_t count) {
  const auto clear = [&](auto packet) {
    constexpr int kValues = decltype(packet)::value;
    launch(stream, dim3(blocks_for(count / kValues, kThreads)), dim3(kThreads), 0, combine_zero<T, kValues>, values,
           count / kValues);
  };
  if (packets_fit<T>(count, {values})) return clear(std::integral_constant<int, kPacket<T>>());
  clear(std::integral_constant<int, 1>());
}

template <class T, class AnyStream>
void round(AnyStream stream, T* out, const float* sums, int64_t count) {
  const auto write = [&](auto packet) {
    constexpr int kValues = decltype(packet)::value;
    launch(stream, dim3(blocks_for(count / kValues, kThreads)), dim3(kThreads), 0, combine_round<T, kValues>, out, sums,
           count / kValues);
  };
  if (packets_fit<float>(count, {out, sums})) return write(std::integral_constant<int, kPacket<float>>());
  write(std::integral_constant<int, 1>());
}

template <bool kVectors, bool kTransposed, class T, class AnyStream>
void launch_rung(AnyStream stream, T* out, void* workspace, const GroupedInput<T>& in, const CombineRouting& routing,
                 const CombineShape& shape, int64_t blocks, int rung) {
  const dim3 grid(static_cast<unsigned>(blocks)), block(kGroupedThreads);
  const CombineTokens tokens{routing.token_of, routing.scales};
  const int64_t count = shape.tokens * shape.columns;
  if (rung == kCombineTwoPassRung) {
    T* const rows = static_cast<T*>(workspace);
    launch(stream, grid, block, kSharedBytes<T>, combine_rows<T, kVectors, kTransposed>, rows, in);
    launch(stream, dim3(blocks_for(shape.tokens, kGroupedThreads / 32)), block, 0, combine_tokens<T, kVectors>, out,
           rows, routing.rows_of, routing.scales, shape.tokens, shape.active, shape.columns);
  } else if (rung == kCombineFloatsRung) {
    float* const sums = static_cast<float*>(workspace);
    zero(stream, sums, count);
    launch(stream, grid, block, kSharedBytes<T>, combine_floats<T, kVectors, kTransposed>, sums, in, tokens);
    round(stream, out, sums, count);
  } else {
    zero(stream, out, count);
    launch(stream, grid, block, kSharedBytes<T>, combine_pairs<T, kVectors, kTransposed>, out, in, tokens);
  }
}

template <class T>
GroupedInput<T> input_of(const T* x, const T* weights, const int* row_of, const CombineRouting& routing,
                         int64_t experts, int64_t depth, int64_t columns) {
  return {.x = x,
          .weights = weights,
          .row_of = row_of,
          .offsets = routing.offsets,
          .experts = static_cast<int>(experts),
          .depth = static_cast<int>(depth),
          .columns = static_cast<int>(columns)};
}

}  // namespace

template <class T, class AnyStream>
void grouped_combine(AnyStream stream, T* out, void* workspace, const T* rows, const T* weights,
                     const CombineRouting& routing, const CombineShape& shape, bool transposed, int64_t blocks,
                     int rung) {
  if (rung < 0 || rung >= kGroupedCombineRungs) throw no_such_rung(kName, rung, kGroupedCombineRungs);
  check(shape, shape.columns, blocks);
  if (rung == kCombinePairsRung && (shape.columns % 2 != 0 || reinterpret_cast<uintptr_t>(out) % 4 != 0))
    refuse("rung 2 adds pairs: it needs an even number of columns, and out at a multiple of 4 bytes");
  if (shape.tokens == 0) return;
  if (grouped_combine_workspace_bytes(shape, rung) > 0 && workspace == nullptr)
    refuse("rung " + std::to_string(rung) + " needs a workspace");
  require_ampere(kName);
  const auto in = input_of<T>(rows, weights, nullptr, routing, shape.experts, shape.depth, shape.columns);
  const bool vectors = packets_fit<T>(shape.depth, {rows, weights}) && packets_fit<T>(shape.columns, {out, workspace});
  const auto start = [&]<bool kVectors, bool kTransposed>() {
    launch_rung<kVectors, kTransposed>(stream, out, workspace, in, routing, shape, blocks, rung);
  };
  if (transposed) {
    vectors ? start.template operator()<true, true>() : start.template operator()<false, true>();
  } else {
    vectors ? start.template operator()<true, false>() : start.template operator()<false, false>();
  }
}

template <class T, class AnyStream>
void grouped_combine_backward(AnyStream stream, T* drows, float* dscales, float* workspace, const T* dout,
                              const T* rows, const T* weights, const CombineRouting& routing, const CombineShape& shape,
                              int64_t blocks) {
  check(shape, shape.depth, blocks);
  if (shape.tokens == 0) return;
  require_ampere(kName);
  // The other way round: rows of dout, `columns` deep, become rows of `depth` values.
  const auto in = input_of<T>(dout, weights, routing.token_of, routing, shape.experts, shape.columns, shape.depth);
  const bool vectors = packets_fit<T>(shape.depth, {rows, drows}) && packets_fit<T>(shape.columns, {dout, weights});
  launch(stream, dim3(static_cast<unsigned>(blocks)), dim3(kGroupedThreads), kSharedBytes<T>,
         vectors ? combine_backward<T, true> : combine_backward<T, false>, drows, workspace, rows, in, routing.scales,
         shape.rows());
  launch(stream, dim3(blocks_for(shape.rows(), kThreads)), dim3(kThreads), 0, combine_scales, dscales, workspace,
         routing.offsets, shape.experts, grouped_combine_backward_workspace(shape) / shape.rows(), shape.rows());
}

template void grouped_combine(Stream, __half*, void*, const __half*, const __half*, const CombineRouting&,
                              const CombineShape&, bool, int64_t, int);
template void grouped_combine(Stream, __nv_bfloat16*, void*, const __nv_bfloat16*, const __nv_bfloat16*,
                              const CombineRouting&, const CombineShape&, bool, int64_t, int);
template void grouped_combine_backward(Stream, __half*, float*, float*, const __half*, const __half*, const __half*,
                                       const CombineRouting&, const CombineShape&, int64_t);
template void grouped_combine_backward(Stream, __nv_bfloat16*, float*, float*, const __nv_bfloat16*,
                                       const __nv_bfloat16*, const __nv_bfloat16*, const CombineRouting&,
                                       const CombineShape&, int64_t);

}  // namespace tenfold::kernels
