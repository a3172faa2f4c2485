#pragma once
// Your answer to exercise 42.3. Build and check it with: ./tenfold exercise 42.3
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
inline int64_t blocks_to_launch(int64_t rows, int64_t experts) {
  // Hint: this is right for one expert. Which division of the rows leaves the most tiles partly empty?
  return (rows + kTile - 1) / kTile;
}

/// What block `block` computes. Expert e has rows offsets[e] to offsets[e + 1] - 1, which may be none. Its tiles begin
/// at its first row; the tiles of all experts are one list, in the order of the experts.
inline Tile tile_of_block(const std::vector<int64_t>& offsets, int64_t block) {
  // Hint: this looks up whose the tile's first row is, as if tiles did not begin anew with each expert.
  const int64_t begin = block * kTile;
  const auto next = std::upper_bound(offsets.begin(), offsets.end(), begin);
  if (next == offsets.end()) return {-1, 0, 0};
  return {next - offsets.begin() - 1, begin, std::min(begin + kTile, *next)};
}
