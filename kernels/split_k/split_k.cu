#include "split_k.h"

#include "split_k.cuh"
#include "split_k_stream.cuh"

#include <stdexcept>
#include <string>

#include "kernels/launch_cooperative.cuh"

namespace tenfold::kernels {
namespace {

constexpr const char* kName = "split_k";
/// As many that a grid of 256 threads to a block has one for each value of C, 2 TiB: in all other grids are fewer.
constexpr int64_t kMostTiles = 0x7fffffff / (kSplitKTile * kSplitKTile / kSplitKThreads);

[[noreturn]] void refuse(const std::string& reason) { throw std::invalid_argument(std::string(kName) + ": " + reason); }

void check(int64_t m, int64_t n, int64_t k, int64_t parts, int rung, const void* workspace, const void* counters) {
  if (rung < 0 || rung >= kSplitKRungs) throw no_such_rung(kName, rung, kSplitKRungs);
  constexpr int64_t kLargest = int64_t{1} << 30;  // an index plus a tile still fits in an int
  for (const int64_t size : {m, n, k}) {
    if (size < 1 || size > kLargest) refuse("a size of " + std::to_string(size) + " is not in 1 .. 2^30");
  }
  const int64_t tiles = split_k_tiles(m, n), depth = split_k_depth(k);
  if (tiles > kMostTiles) refuse("C has more values than a grid has threads");
  const int64_t most = rung < kStreamKRung ? std::min(depth, kMostTiles / tiles) : std::min(kMostTiles, tiles * depth);
  if (rung > 0 && (parts < 1 || parts > most)) {
    refuse("parts " + std::to_string(parts) + " of rung " + std::to_string(rung) + "; there may be 1 to " +
           std::to_string(most));
  }
  if (split_k_workspace_bytes(m, n, k, parts, rung) > 0) {
    if (workspace == nullptr) refuse("rung " + std::to_string(rung) + " needs a workspace");
    if (reinterpret_cast<uintptr_t>(workspace) % 16 != 0) refuse("the workspace must begin at a multiple of 16 bytes");
  }
  if (split_k_counters(m, n, parts, rung) > 0 && counters == nullptr)
    refuse("rung " + std::to_string(rung) + " needs counters");
}

template <class T>
constexpr size_t kSharedBytes = kSplitKStages * kSplitKStage * sizeof(T);

template <bool kVectors, class T, class AnyStream>
void launch_rung(AnyStream stream, float* c, float* workspace, unsigned* counters, const SplitKInput<T>& in,
                 const SplitKSchedule& schedule, int rung) {
  const auto start = [&](auto* kernel, auto... arguments) {
    launch(stream, dim3(static_cast<unsigned>(schedule.blocks)), dim3(kSplitKThreads), kSharedBytes<T>, kernel,
           arguments..., in, schedule);
  };
  const auto start_together = [&](auto* kernel) {  // the blocks wait for each other
    launch_cooperative(stream, dim3(static_cast<unsigned>(schedule.blocks)), dim3(kSplitKThreads), kSharedBytes<T>,
                       kernel, c, workspace, counters, in, schedule);
  };
  const auto each = [&](int64_t count, auto* kernel, auto... arguments) {
    const auto blocks = static_cast<unsigned>((count + kSplitKThreads - 1) / kSplitKThreads);
    launch(stream, dim3(blocks), dim3(kSplitKThreads), 0, kernel, arguments...);
  };
  const int64_t values = int64_t{in.m} * in.n;
  if (rung == 0 || schedule.pieces == 1) return start(split_k_data_parallel<T, kVectors>, c);
  if (rung == 1) {
    constexpr int kValues = kVectors ? 4 : 1;
    start(split_k_to_workspace<T, kVectors>, workspace);
    return each(values / kValues, split_k_sum<kValues>, c, workspace, values / kValues,
                static_cast<int>(schedule.pieces));
  }
  if (rung == 2) {
    each(values, split_k_zero, c, values);
    return start(split_k_atomics<T, kVectors>, c);
  }
  if (rung == 3) return start(split_k_last_block<T, kVectors>, c, workspace, counters);
  if (rung == kStreamKRung) return start_together(split_k_stream<T, kVectors>);
  start_together(split_k_two_tile<T, kVectors>);
}

}  // namespace

#ifdef __CUDACC__  // the microscope runs one block at a time
template <class T>
int64_t split_k_wave(bool packets) {
  int device = 0, sms = 0, blocks = 0;
  check_launch(cudaGetDevice(&device));
  check_launch(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  const auto kernel = packets ? split_k_two_tile<T, true> : split_k_two_tile<T, false>;
  check_launch(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kSharedBytes<T>)));
  check_launch(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, kSplitKThreads, kSharedBytes<T>));
  return int64_t{sms} * blocks;
}
template int64_t split_k_wave<__half>(bool);
template int64_t split_k_wave<__nv_bfloat16>(bool);
#endif

template <class T, class AnyStream>
void split_k(AnyStream stream, float* c, float* workspace, unsigned* counters, const T* a, const T* b, int64_t m,
             int64_t n, int64_t k, int64_t parts, int rung) {
  check(m, n, k, parts, rung, workspace, counters);
  require_ampere(kName);
  const SplitKInput<T> in{a,
                          b,
                          static_cast<int>(m),
                          static_cast<int>(n),
                          static_cast<int>(k),
                          static_cast<int>((n + kSplitKTile - 1) / kSplitKTile)};
  const SplitKSchedule schedule = split_k_schedule(m, n, k, parts, rung);
  const bool vectors = packets_fit<T>(k, {a}) && packets_fit<T>(n, {b, c});
#ifdef __CUDACC__
  if (rung >= kStreamKRung && parts > split_k_wave<T>(vectors)) {
    refuse(std::to_string(parts) + " blocks that wait for each other; the GPU runs " +
           std::to_string(split_k_wave<T>(vectors)) + " at a time");
  }
#endif
  if (vectors) return launch_rung<true>(stream, c, workspace, counters, in, schedule, rung);
  launch_rung<false>(stream, c, workspace, counters, in, schedule, rung);
}

template void split_k(Stream, float*, float*, unsigned*, const __half*, const __half*, int64_t, int64_t, int64_t,
                      int64_t, int);
template void split_k(Stream, float*, float*, unsigned*, const __nv_bfloat16*, const __nv_bfloat16*, int64_t, int64_t,
                      int64_t, int64_t, int);

}  // namespace tenfold::kernels
