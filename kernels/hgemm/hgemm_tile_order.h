#pragma once
// Which tile of C comes when.

namespace tenfold::kernels {

/// The tile of C that a block computes: in groups of 8 rows of tiles, and within a group column by column. Blocks that
/// run at the same time then use few different tiles of A and of B, which stay in L2.
struct HgemmTile {
  int row, column;
};
constexpr HgemmTile hgemm_tile(int block, int row_tiles, int column_tiles) {
  constexpr int kGroup = 8;
  const int first = block / (kGroup * column_tiles) * kGroup, within = block % (kGroup * column_tiles);
  const int rows = row_tiles - first < kGroup ? row_tiles - first : kGroup;
  return {first + within % rows, within / rows};
}

}  // namespace tenfold::kernels
