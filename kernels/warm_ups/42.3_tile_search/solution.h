#pragma once
// The kept solution of exercise 42.3; CI proves that it passes.
#include <algorithm>
#include <cstdint>
#include <vector>

/// Rows of a tile, at the most.
inline constexpr int64_t kTile = 128;

/// Rows [begin, end) of one expert; expert -1 where a block has nothing to do.
struct Tile {
  int64_t expert, begin, end;
};

/// How many blocks to launch for `rows` rows of `experts` experts when nobody has read how they are divided: enough for
/// every division, and no more than a tile's worth for each 128 rows and one more for each expert.
inline int64_t blocks_to_launch(int64_t rows, int64_t experts) { return (rows + kTile - 1) / kTile + experts; }

/// What block `block` computes. Expert e has rows offsets[e] to offsets[e + 1] - 1, which may be none. Its tiles begin
/// at its first row; the tiles of all experts are one list, in the order of the experts.
inline Tile tile_of_block(const std::vector<int64_t>& offsets, int64_t block) {
  int64_t first_tile = 0;  // of the expert
  for (size_t e = 0; e + 1 < offsets.size(); ++e) {
    const int64_t tiles = (offsets[e + 1] - offsets[e] + kTile - 1) / kTile;
    if (block < first_tile + tiles) {
      const int64_t begin = offsets[e] + (block - first_tile) * kTile;
      return {static_cast<int64_t>(e), begin, std::min(begin + kTile, offsets[e + 1])};
    }
    first_tile += tiles;
  }
  return {-1, 0, 0};
}
