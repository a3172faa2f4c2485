#include "grouped_gemm.h"

#include "grouped_gemm.cuh"
#include "grouped_gemm_backward.cuh"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace tenfold::kernels {
namespace {

constexpr const char* kName = "grouped_gemm";
/// Twice as many, an index and a step behind the last tile, still fit in an int.
constexpr int64_t kMost = int64_t{1} << 30;

[[noreturn]] void refuse(const std::string& reason) { throw std::invalid_argument(std::string(kName) + ": " + reason); }

void check_size(const char* name, int64_t size, int64_t least) {
  if (size < least || size > kMost) {
    refuse(std::string(name) + " = " + std::to_string(size) + " is not in " + std::to_string(least) + " .. 2^30");
  }
}

/// The most rows of an expert. Refuses what is no routing of at most `rows` rows.
int64_t largest_of(const int* offsets, const GroupedShape& shape) {
  int64_t largest = 0;
  for (int64_t expert = 0; expert < shape.experts; ++expert) {
    const int64_t count = int64_t{offsets[expert + 1]} - offsets[expert];
    if (count < 0) refuse("host offsets fall behind expert " + std::to_string(expert));
    largest = std::max(largest, count);
  }
  if (offsets[0] != 0 || offsets[shape.experts] > shape.rows)
    refuse("host offsets do not begin with 0 and end with rows or less");
  return largest;
}

void check_sizes(const GroupedShape& shape) {
  check_size("rows", shape.rows, 0);
  check_size("experts", shape.experts, 1);
  check_size("depth", shape.depth, 1);
  check_size("columns", shape.columns, 1);
}

void check(const GroupedShape& shape, const int* host_offsets, int64_t blocks, int rung) {
  if (rung < 0 || rung >= kGroupedGemmRungs) throw no_such_rung(kName, rung, kGroupedGemmRungs);
  check_sizes(shape);
  if (rung >= kGroupedPersistentRung) check_size("blocks", blocks, 1);
  if (most_row_tiles(shape.rows, shape.experts) > kMost / grouped_tiles(shape.columns)) refuse("too many tiles");
  if (rung < kGroupedDeviceRung && host_offsets == nullptr)
    refuse("rung " + std::to_string(rung) + " needs the offsets on the host");
}

template <class T>
constexpr size_t kSharedBytes = kGroupedStages * kGroupedStage * sizeof(T);

template <class T>
GroupedInput<T> input_of(const T* x, const T* weights, const int* row_of, const int* offsets,
                         const GroupedShape& shape) {
  return {.x = x,
          .weights = weights,
          .row_of = row_of,
          .offsets = offsets,
          .experts = static_cast<int>(shape.experts),
          .depth = static_cast<int>(shape.depth),
          .columns = static_cast<int>(shape.columns)};
}

unsigned blocks_for_rows(int64_t rows) {
  constexpr int64_t kWarps = kGroupedThreads / 32;
  return static_cast<unsigned>((rows + kWarps - 1) / kWarps);
}

template <bool kVectors, class T, class AnyStream>
void launch_padded(AnyStream stream, T* out, T* workspace, const GroupedInput<T>& in, int64_t capacity) {
  const int64_t rows = in.experts * capacity, tiles = grouped_tiles(capacity) * grouped_tiles(in.columns);
  if (rows > kMost || tiles > kMost / in.experts) refuse("rung 0: buffers of the largest expert's size are too large");
  T* const results = workspace + rows * in.depth;
  launch(stream, dim3(blocks_for_rows(rows)), dim3(kGroupedThreads), 0, grouped_pad<T, kVectors>, workspace, in,
         capacity);
  launch(stream, dim3(static_cast<unsigned>(in.experts * tiles)), dim3(kGroupedThreads), kSharedBytes<T>,
         grouped_batch<T, kVectors>, results, workspace, in.weights, capacity, in.depth, in.columns);
  launch(stream, dim3(blocks_for_rows(rows)), dim3(kGroupedThreads), 0, grouped_unpad<T, kVectors>, out, results,
         in.offsets, in.experts, in.columns, capacity);
}

template <bool kVectors, class T, class AnyStream>
void launch_each(AnyStream stream, T* out, const GroupedInput<T>& in, const int* host_offsets) {
  for (int expert = 0; expert < in.experts; ++expert) {
    const int64_t row = host_offsets[expert], rows = host_offsets[expert + 1] - row;
    if (rows == 0) continue;
    const int64_t tiles = grouped_tiles(rows) * grouped_tiles(in.columns);
    launch(stream, dim3(static_cast<unsigned>(tiles)), dim3(kGroupedThreads), kSharedBytes<T>,
           grouped_batch<T, kVectors>, out + row * in.columns, in.x + row * in.depth, in.weight(expert), rows, in.depth,
           in.columns);
  }
}

template <bool kVectors, class T, class AnyStream>
void launch_rung(AnyStream stream, T* out, T* workspace, GroupedInput<T> in, const int* host_offsets, int64_t largest,
                 const GroupedShape& shape, int64_t blocks, int rung) {
  if (rung == 0) return launch_padded<kVectors>(stream, out, workspace, in, largest);
  if (rung < kGroupedGatherRung && in.row_of != nullptr) {
    launch(stream, dim3(blocks_for_rows(shape.rows)), dim3(kGroupedThreads), 0, grouped_permute<T, kVectors>, workspace,
           in);
    in.x = workspace, in.row_of = nullptr;
  }
  if (rung == 1) return launch_each<kVectors>(stream, out, in, host_offsets);
  const auto start = [&](int64_t grid, auto* kernel) {
    launch(stream, dim3(static_cast<unsigned>(grid)), dim3(kGroupedThreads), kSharedBytes<T>, kernel, out, in);
  };
  if (rung == 2) {
    return start(most_row_tiles(shape.rows, shape.experts) * grouped_tiles(shape.columns),
                 grouped_one_grid<T, kVectors>);
  }
  if (rung == kGroupedPersistentRung) return start(blocks, grouped_persistent<T, kVectors>);
  start(blocks,
        rung == kGroupedGatherRung ? grouped_gathered<T, kVectors, false> : grouped_gathered<T, kVectors, true>);
}

}  // namespace

#ifdef __CUDACC__  // the microscope runs one block at a time
template <class T>
int64_t grouped_gemm_wave(bool packets) {
  int device = 0, sms = 0, blocks = 0;
  check_launch(cudaGetDevice(&device));
  check_launch(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  const auto kernel = packets ? grouped_gathered<T, true, true> : grouped_gathered<T, false, true>;
  check_launch(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kSharedBytes<T>)));
  check_launch(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, kGroupedThreads, kSharedBytes<T>));
  return int64_t{sms} * blocks;
}
template int64_t grouped_gemm_wave<__half>(bool);
template int64_t grouped_gemm_wave<__nv_bfloat16>(bool);
#endif

template <class T, class AnyStream>
void grouped_gemm(AnyStream stream, T* out, T* workspace, const T* x, const int* row_of, const T* weights,
                  const int* offsets, const int* host_offsets, const GroupedShape& shape, int64_t blocks, int rung) {
  check(shape, host_offsets, blocks, rung);
  const int64_t largest = rung < kGroupedDeviceRung ? largest_of(host_offsets, shape) : shape.rows;
  if (largest == 0) return;  // no row at all
  if (grouped_gemm_workspace(shape, largest, row_of != nullptr, rung) > 0 && workspace == nullptr)
    refuse("rung " + std::to_string(rung) + " needs a workspace");
  require_ampere(kName);
  const auto in = input_of(x, weights, row_of, offsets, shape);
  const bool vectors =
      packets_fit<T>(shape.depth, {x, workspace}) && packets_fit<T>(shape.columns, {weights, out, workspace});
  if (vectors) return launch_rung<true>(stream, out, workspace, in, host_offsets, largest, shape, blocks, rung);
  launch_rung<false>(stream, out, workspace, in, host_offsets, largest, shape, blocks, rung);
}

template <class T, class AnyStream>
void grouped_gemm_weights(AnyStream stream, T* dweights, const T* x, const int* row_of, const T* dout,
                          const int* offsets, const GroupedShape& shape) {
  check_sizes(shape);
  const int64_t column_tiles = grouped_tiles(shape.columns);
  if (grouped_tiles(shape.depth) > kMost / column_tiles / shape.experts) refuse("too many tiles");
  require_ampere(kName);
  const auto in = input_of<T>(x, nullptr, row_of, offsets, shape);
  const bool vectors = packets_fit<T>(shape.depth, {x}) && packets_fit<T>(shape.columns, {dout, dweights});
  const auto blocks = static_cast<unsigned>(shape.experts * grouped_tiles(shape.depth) * column_tiles);
  launch(stream, dim3(blocks), dim3(kGroupedThreads), kSharedBytes<T>,
         vectors ? grouped_weight_gradient<T, true> : grouped_weight_gradient<T, false>, dweights, in, dout);
}

template void grouped_gemm_weights(Stream, __half*, const __half*, const int*, const __half*, const int*,
                                   const GroupedShape&);
template void grouped_gemm_weights(Stream, __nv_bfloat16*, const __nv_bfloat16*, const int*, const __nv_bfloat16*,
                                   const int*, const GroupedShape&);
template void grouped_gemm(Stream, __half*, __half*, const __half*, const int*, const __half*, const int*, const int*,
                           const GroupedShape&, int64_t, int);
template void grouped_gemm(Stream, __nv_bfloat16*, __nv_bfloat16*, const __nv_bfloat16*, const int*,
                           const __nv_bfloat16*, const int*, const int*, const GroupedShape&, int64_t, int);

}  // namespace tenfold::kernels
