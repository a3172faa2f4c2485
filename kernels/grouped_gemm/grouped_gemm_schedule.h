#pragma once
// Which tile of which expert comes when. Plain arithmetic, the same for the host and for a kernel.

#include <cstdint>

#include "kernels/hgemm/hgemm_tile_order.h"

namespace tenfold::kernels {

/// A tile of the result is 128 x 128; an iteration multiplies 32 of its depth.
inline constexpr int kGroupedTile = 128, kGroupedDepth = 32;

/// Tiles that cover so many rows or columns. An expert without rows has none.
constexpr int64_t grouped_tiles(int64_t count) { return (count + kGroupedTile - 1) / kGroupedTile; }

/// The most row tiles that any routing of `rows` rows to `experts` experts can need: what a host knows that has not
/// read the routing. Each expert with rows may leave all but one row of its last tile empty.
constexpr int64_t most_row_tiles(int64_t rows, int64_t experts) {
  const int64_t with_rows = rows < experts ? rows : experts;
  return (rows + with_rows * (kGroupedTile - 1)) / kGroupedTile;
}

/// Where a tile begins. It ends with its expert: behind `row_end` another one's rows begin.
struct GroupedTile {
  int expert, row, row_end, column;
};

/// Tile `at` of those of an expert with rows [begin, end): in groups of 8 rows of tiles, and within a group column by
/// column, as hgemm's rung 4 has them. Tiles that run at the same time then share an expert's rows and columns.
constexpr GroupedTile grouped_tile(int expert, int begin, int end, int column_tiles, int at) {
  const HgemmTile tile = hgemm_tile(at, static_cast<int>(grouped_tiles(end - begin)), column_tiles);
  return {expert, begin + tile.row * kGroupedTile, end, tile.column * kGroupedTile};
}

}  // namespace tenfold::kernels
