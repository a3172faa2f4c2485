#pragma once
// What needs no GPU of attention's rungs for Hopper: what TMA is told of q, k and v, how a tile then lies in shared
// memory, and what wgmma is told of it. Sources as in kernels/hgemm/hgemm_tma.h, which explains the two.

#include "kernels/hgemm/hgemm_tma.h"

namespace tenfold::kernels {

/// Queries of a block, 64 for each of its two warpgroups that multiply, and keys of a tile.
inline constexpr int kAttentionQueries = 128, kAttentionKeys = 128;
/// Tiles of k, and of v, in shared memory at a time.
inline constexpr int kAttentionStages = 2;

/// Every tile has 128 rows. It is copied in boxes of 64 columns, whose rows are as wide as the swizzle.
inline constexpr int kAttentionBoxWidth = 64;
inline constexpr uint32_t kAttentionBoxBytes = 128 * kAttentionBoxWidth * 2;
template <int D>
inline constexpr uint32_t kAttentionTileBytes = D / kAttentionBoxWidth * kAttentionBoxBytes;
/// Dynamic shared memory of a block: the queries, the tiles of k and v, and what it takes to begin where 1024 divides.
template <int D>
inline constexpr uint32_t kAttentionSharedBytes = (1 + 2 * kAttentionStages) * kAttentionTileBytes<D> + 1024;

/// What cuTensorMapEncodeTiled is told of the (heads, rows, D) values of q, k or v. With the heads as a dimension of
/// their own, a box that reaches over a head's last row has zeros there, and not the next head's rows.
struct AttentionTensor {
  uint64_t size[3];     ///< the dimension with neighbours first
  uint64_t strides[2];  ///< bytes from one row to the next, and from one head to the next
  uint32_t box[3];      ///< elements that one copy moves
};
constexpr AttentionTensor attention_tensor(int64_t heads, int64_t rows, int64_t head_dim) {
  const auto row_bytes = static_cast<uint64_t>(head_dim) * 2;
  return {{static_cast<uint64_t>(head_dim), static_cast<uint64_t>(rows), static_cast<uint64_t>(heads)},
          {row_bytes, static_cast<uint64_t>(rows) * row_bytes},
          {kAttentionBoxWidth, 128, 1}};
}

/// Of a tile of q at `address`: rows 64 * group and the 63 after them, 16 deep from 16 * step on.
constexpr uint64_t attention_descriptor_q(uint32_t address, int group, int step) {
  return hopper_descriptor_a(address + static_cast<uint32_t>(step / 4) * kAttentionBoxBytes, group, step % 4);
}
/// Of a tile of k, whose 128 rows are the columns of k^T: 16 deep from 16 * step on. Neighbours lie along the depth, as
/// those of q.
constexpr uint64_t attention_descriptor_k(uint32_t address, int step) {
  return attention_descriptor_q(address, 0, step);
}
/// Of a tile of v: all columns, 16 deep from row 16 * step on. Neighbours lie along the columns.
constexpr uint64_t attention_descriptor_v(uint32_t address, int step) {
  return wgmma_descriptor(address + static_cast<uint32_t>(step * 16 * 128), kAttentionBoxBytes, 8 * 128);
}

}  // namespace tenfold::kernels
