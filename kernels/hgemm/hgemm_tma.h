#pragma once
// The arithmetic of Hopper's rungs that needs no GPU: what TMA is told of A and B, how a tile then lies in shared
// memory, and what wgmma is told of it. Plain C++, so that a test can hold the three against each other.
//
// Sources: NVIDIA, "CUDA Driver API", "Tensor Map Object Management"; NVIDIA, "PTX ISA", release 9.0, "Asynchronous
// Warpgroup Level Matrix Shared Memory Layout" and "Matrix descriptor"; NVIDIA CUTLASS, the canonical layouts in
// cute/atom/mma_traits_sm90_gmma.hpp.

#include <cstdint>

namespace tenfold::kernels {

/// A block's tile of C, and how deep its tiles of A and B are. 64 elements of 16 bits are 128 bytes, the width of the
/// swizzle.
inline constexpr int kHopperRows = 128, kHopperColumns = 256, kHopperDepth = 64;
/// Tiles of A and B in shared memory at a time.
inline constexpr int kHopperStages = 4;
/// Shared memory is filled in boxes of rows of 128 bytes: one for A, four of 64 columns for B.
inline constexpr int kHopperBoxWidth = 64;
inline constexpr uint32_t kHopperBytesOfA = kHopperRows * kHopperDepth * 2,
                          kHopperBytesOfB = kHopperDepth * kHopperColumns * 2;
inline constexpr uint32_t kHopperBoxBytesOfB = kHopperDepth * kHopperBoxWidth * 2;

/// Blocks of a cluster, which multiply different rows of A by the same columns of B: each copies its share of B's tile
/// to both.
inline constexpr int kHopperCluster = 2;
/// Where a warp leaves results for TMA to store: two rooms of 16 rows of 128 bytes each, filled in turn.
inline constexpr int kHopperRoomRows = 16, kHopperRooms = 2;
inline constexpr uint32_t kHopperRoomBytes = kHopperRoomRows * kHopperBoxWidth * 2;

/// What cuTensorMapEncodeTiled is told of a row-major matrix of 16-bit elements; the dimension with neighbours comes
/// first.
struct HopperTensor {
  uint64_t size[2];
  uint64_t row_bytes;  ///< from one row to the next; a multiple of 16
  uint32_t box[2];     ///< elements that one copy moves
};
constexpr HopperTensor hopper_tensor_a(int64_t m, int64_t k) {
  return {
      {static_cast<uint64_t>(k), static_cast<uint64_t>(m)}, static_cast<uint64_t>(k) * 2, {kHopperDepth, kHopperRows}};
}
constexpr HopperTensor hopper_tensor_b(int64_t k, int64_t n) {
  return {{static_cast<uint64_t>(n), static_cast<uint64_t>(k)},
          static_cast<uint64_t>(n) * 2,
          {kHopperBoxWidth, kHopperDepth}};
}

constexpr HopperTensor hopper_tensor_c(int64_t m, int64_t n) {
  return {{static_cast<uint64_t>(n), static_cast<uint64_t>(m)},
          static_cast<uint64_t>(n) * 2,
          {kHopperBoxWidth, kHopperRoomRows}};
}

/// The 128-byte swizzle: where byte `offset` of a box lies, in a place that 1024 divides. Within 8 rows of 128 bytes,
/// packets of 16 bytes change places by the row's number. TMA and wgmma apply it to address bits, so that it holds for
/// addresses as well.
constexpr uint32_t swizzle_128(uint32_t offset) { return offset ^ (offset >> 7 & 7) << 4; }

/// The matrix descriptor of wgmma for tiles in the 128-byte swizzle: where the tile begins, and two strides in bytes
/// whose meaning depends on the operand (hopper_descriptor_a, _b).
constexpr uint64_t wgmma_descriptor(uint32_t address, uint32_t leading_bytes, uint32_t stride_bytes) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  const auto field = [](uint32_t bytes) { return uint64_t{bytes >> 4 & 0x3fff}; };  // in units of 16 bytes, 14 bits
  return kSwizzle128 | field(stride_bytes) << 32 | field(leading_bytes) << 16 | field(address);
}

/// Rows 64 * group and the 63 after them, 16 deep from 16 * step on, of a tile of A that begins at `address`.
/// Neighbours lie along the depth: 8 rows of 128 bytes are a unit, the next 8 rows lie one stride on, and the depth
/// ends within a unit.
constexpr uint64_t hopper_descriptor_a(uint32_t address, int group, int step) {
  return wgmma_descriptor(address + static_cast<uint32_t>(group * 64 * 128 + step * 32), 16, 8 * 128);
}
/// All 256 columns, 16 deep from 16 * step on, of a tile of B. Neighbours lie along the columns: 64 columns by 8 in
/// depth are a unit, the next 8 in depth lie one stride on, and the next 64 columns in the next box.
constexpr uint64_t hopper_descriptor_b(uint32_t address, int step) {
  return wgmma_descriptor(address + static_cast<uint32_t>(step * 16 * 128), kHopperBoxBytesOfB, 8 * 128);
}

}  // namespace tenfold::kernels
