#pragma once
// What needs no GPU of scaled_gemm's rungs for Hopper: what TMA is told of A and B, how a tile then lies in shared
// memory, and what wgmma is told of it. Sources as in kernels/hgemm/hgemm_tma.h, which explains the three.

#include "kernels/hgemm/hgemm_tma.h"
#include "scaled_gemm.h"

namespace tenfold::kernels {

/// A block's tile of C. Its columns share one scale of B, and with half of its rows each of two warpgroups has 64 sums
/// of a thread, kept twice or three times.
inline constexpr int kScaledHopperRows = 128, kScaledHopperColumns = 128;
/// A stage holds the tiles of A and B for one block of k: 128 rows of 128 bytes each, which is the width of the
/// swizzle, so that a tile is one box.
inline constexpr int kScaledHopperDepth = static_cast<int>(kScaleBlock), kScaledHopperStages = 6;
inline constexpr uint32_t kScaledHopperTileBytes = kScaledHopperRows * kScaledHopperDepth,
                          kScaledHopperStageBytes = 2 * kScaledHopperTileBytes;
static_assert(kScaledHopperRows == kScaledHopperColumns && kScaledHopperDepth == 128);
/// Dynamic shared memory of a block: the stages, and what it takes to begin where 1024 divides.
inline constexpr uint32_t kScaledHopperSharedBytes = kScaledHopperStages * kScaledHopperStageBytes + 1024;

/// Blocks of a cluster, which multiply different rows of A by the same rows of B.
inline constexpr int kScaledHopperCluster = 2;

/// What cuTensorMapEncodeTiled is told of A (rows, k), or of B, in bytes, of which a copy moves `box_rows`; k must be
/// divisible by 16.
constexpr HopperTensor scaled_hopper_tensor(int64_t rows, int64_t k, int64_t box_rows) {
  return {{static_cast<uint64_t>(k), static_cast<uint64_t>(rows)},
          static_cast<uint64_t>(k),
          {kScaledHopperDepth, static_cast<uint32_t>(box_rows)}};
}

/// Rows 64 * group and those after them, 32 deep from 32 * step on, of a tile that begins at `address`: the same bytes
/// as 16 elements of 16 bits are.
constexpr uint64_t scaled_hopper_descriptor_a(uint32_t address, int group, int step) {
  return hopper_descriptor_a(address, group, step);
}
/// All 128 rows of a tile of B, which are columns of B^T.
constexpr uint64_t scaled_hopper_descriptor_b(uint32_t address, int step) {
  return hopper_descriptor_a(address, 0, step);
}

}  // namespace tenfold::kernels
