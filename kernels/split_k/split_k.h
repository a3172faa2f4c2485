#pragma once
// A matrix product whose result has too few tiles for the GPU: a ladder of ways to deal its work out to blocks.

#include <algorithm>
#include <cstdint>

#include "split_k_schedule.h"

namespace tenfold::kernels {

inline constexpr int kSplitKRungs = 6;
/// The rungs from which on iterations of all tiles are one line, and from which on most tiles are whole again.
inline constexpr int kStreamKRung = 4, kTwoTileRung = 5;
/// A tile of C is 128 x 128, an iteration multiplies 32 of its depth.
inline constexpr int64_t kSplitKTile = 128, kSplitKDepth = 32;

constexpr int64_t split_k_tiles(int64_t m, int64_t n) {
  return ((m + kSplitKTile - 1) / kSplitKTile) * ((n + kSplitKTile - 1) / kSplitKTile);
}
constexpr int64_t split_k_depth(int64_t k) { return (k + kSplitKDepth - 1) / kSplitKDepth; }

/// What the launcher of this rung starts. `parts` is the number of pieces of each tile for rungs 1 to 3, the number of
/// blocks for rungs 4 and 5, and is not looked at by rung 0.
constexpr SplitKSchedule split_k_schedule(int64_t m, int64_t n, int64_t k, int64_t parts, int rung) {
  const int64_t tiles = split_k_tiles(m, n), depth = split_k_depth(k);
  if (rung < kStreamKRung) return split_k_pieces(tiles, depth, rung == 0 ? 1 : parts);
  return rung == kStreamKRung ? stream_k(tiles, depth, parts) : two_tile_stream_k(tiles, depth, parts);
}

/// The parts to ask for on a GPU that runs `wave` blocks at a time (SMs times the blocks that an SM holds). Pieces: as
/// many as one wave holds. Blocks: a wave. But a piece or share that does not begin with a whole tile keeps 8
/// iterations: these load 128 KiB of A and B, as much as the partial tile's 64 KiB that are written and read again.
/// Expected, not yet measured.
constexpr int64_t split_k_parts(int64_t m, int64_t n, int64_t k, int64_t wave, int rung) {
  constexpr int64_t kLeast = 8;
  const int64_t tiles = split_k_tiles(m, n), depth = split_k_depth(k);
  if (rung < kStreamKRung) return std::max<int64_t>(1, std::min(wave / tiles, depth / kLeast));
  return std::min(wave, std::max(tiles, tiles * depth / kLeast));
}

/// Bytes of `workspace`. Rung 1: a copy of C for each piece. Rung 3: a tile for each block, partial ones whole. Rungs 4
/// and 5: the same.
constexpr int64_t split_k_workspace_bytes(int64_t m, int64_t n, int64_t k, int64_t parts, int rung) {
  constexpr int64_t kFloat = 4;
  if (rung == 0 || rung == 2 || (rung < kStreamKRung && parts == 1)) return 0;
  if (rung == 1) return parts * m * n * kFloat;
  return split_k_schedule(m, n, k, parts, rung).blocks * kSplitKTile * kSplitKTile * kFloat;
}

/// Words of `counters`. Rung 3: one for each tile, of pieces that are done. Rungs 4 and 5: a flag for each block.
constexpr int64_t split_k_counters(int64_t m, int64_t n, int64_t parts, int rung) {
  if (rung < 3 || (rung == 3 && parts == 1)) return 0;
  return rung == 3 ? split_k_tiles(m, n) : parts;
}

/// C (m, n) = A (m, k) * B (k, n), row-major without gaps; A and B are __half or __nv_bfloat16, C and all sums float32,
/// as a weight's gradient is kept. Rungs: 0 data parallel, a block for each tile; 1 workspace: the pieces of a tile go
/// to memory and a second kernel adds them; 2 atomics: every piece is added to C by atomicAdd; 3 last block: the last
/// block of a tile adds its pieces; 4 stream-K; 5 two tile: stream-K for the last one or two waves only. Every rung but
/// 2 gives the same bits for the same arguments each time. Rung 2 adds in the order in which blocks end. `parts` is as
/// split_k_schedule() takes it; split_k_parts() has a rule. `workspace` has split_k_workspace_bytes() and begins at a
/// multiple of 16 bytes; `counters` has split_k_counters() words that are 0, and leaves them 0. Both may be null where
/// that is none. No two arrays may overlap. Every shape and alignment of A, B and C is taken; copies are of 16 bytes
/// where k and n are divisible by 8 and A, B and C begin at a multiple of 16 bytes, else of single elements. Rungs 4
/// and 5 wait for blocks of lower numbers. All blocks must be able to run at the same time: `parts` is at most
/// split_k_wave() on a GPU.
/// Throws std::invalid_argument, before any launch, for a size below 1 or above 2^30, more tiles than a grid has
/// blocks, parts that cannot be (below 1; more pieces than iterations of a tile; more blocks than iterations of all;
/// more blocks than run at a time), a workspace or counters that are missing or not aligned, or an unknown rung;
/// std::runtime_error on a GPU before compute capability 8.0. Sources: M. Osama, D. Merrill, C. Cecka, M. Garland, J.
/// D. Owens, "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the GPU", PPoPP
/// 2023 (https://arxiv.org/abs/2301.03598); NVIDIA, CUTLASS documentation, "Efficient GEMM in CUDA", "Parallelized
/// Reductions" (https://docs.nvidia.com/cutlass/media/docs/cpp/efficient_gemm.html).
template <class T, class Stream>
void split_k(Stream stream, float* c, float* workspace, unsigned* counters, const T* a, const T* b, int64_t m,
             int64_t n, int64_t k, int64_t parts, int rung = kSplitKRungs - 1);

/// Blocks of rungs 4 and 5 that the current GPU runs at a time, with copies of 16 bytes or of single elements, which
/// take more registers. Not under the microscope.
template <class T>
int64_t split_k_wave(bool packets);

}  // namespace tenfold::kernels
