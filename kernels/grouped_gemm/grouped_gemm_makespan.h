#pragma once
// How long the blocks of each rung take for a routing, counted in tiles, and what is copied besides. For the host.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "grouped_gemm.h"

namespace tenfold::kernels {

/// Prefix sums of a routing in which the first expert has `largest` of `rows` rows, and the others share the rest:
/// (experts + 1) offsets. One expert has them all. Throws nothing; `largest` is cut to what there is.
inline std::vector<int> one_large_expert(int64_t rows, int64_t experts, int64_t largest) {
  const int64_t first = experts == 1 ? rows : std::min(largest, rows);
  std::vector<int> offsets{0, static_cast<int>(first)};
  for (int64_t other = 1; other < experts; ++other)
    offsets.push_back(static_cast<int>(first + (rows - first) * other / (experts - 1)));
  return offsets;
}

inline int64_t largest_expert(const std::vector<int>& offsets) {
  int64_t largest = 0;
  for (size_t e = 0; e + 1 < offsets.size(); ++e)
    largest = std::max<int64_t>(largest, offsets[e + 1] - offsets[e]);
  return largest;
}

/// Row tiles of each expert.
inline std::vector<int64_t> row_tiles_of(const std::vector<int>& offsets) {
  std::vector<int64_t> tiles;
  for (size_t e = 0; e + 1 < offsets.size(); ++e) tiles.push_back(grouped_tiles(offsets[e + 1] - offsets[e]));
  return tiles;
}

/// The list that the blocks of rungs 2 and on walk over: each tile's expert, row, and the column tile of it.
inline std::vector<GroupedTile> grouped_tile_list(const std::vector<int>& offsets, int64_t columns) {
  std::vector<GroupedTile> list;
  for (int e = 0; e + 1 < static_cast<int>(offsets.size()); ++e) {
    const int begin = offsets[static_cast<size_t>(e)], end = offsets[static_cast<size_t>(e) + 1];
    const auto row_tiles = static_cast<int>(grouped_tiles(end - begin)),
               column_tiles = static_cast<int>(grouped_tiles(columns));
    for (int at = 0; at < row_tiles * column_tiles; ++at) list.push_back(grouped_tile(e, begin, end, column_tiles, at));
  }
  return list;
}

/// What the blocks of each launch of a rung's products multiply, in half tiles of 64 rows: one vector for a launch.
/// `blocks` counts from rung 3 on.
inline std::vector<std::vector<int64_t>> half_tiles_of_blocks(const std::vector<int>& offsets, int64_t columns,
                                                              int64_t blocks, int rung) {
  const int64_t experts = static_cast<int64_t>(offsets.size()) - 1, column_tiles = grouped_tiles(columns);
  using Blocks = std::vector<int64_t>;
  if (rung == 0)
    return {Blocks(static_cast<size_t>(experts * grouped_tiles(largest_expert(offsets)) * column_tiles), 2)};
  if (rung == 1) {
    std::vector<Blocks> launches;
    for (const int64_t row_tiles : row_tiles_of(offsets)) {
      if (row_tiles > 0) launches.emplace_back(static_cast<size_t>(row_tiles * column_tiles), 2);
    }
    return launches;
  }
  const std::vector<GroupedTile> list = grouped_tile_list(offsets, columns);
  Blocks of_blocks(static_cast<size_t>(rung == 2 ? most_row_tiles(offsets.back(), experts) * column_tiles : blocks));
  for (size_t at = 0; at < list.size(); ++at) {
    const bool is_half = rung > kGroupedGatherRung && list[at].row_end - list[at].row <= kGroupedTile / 2;
    of_blocks[at % of_blocks.size()] += is_half ? 1 : 2;
  }
  return {of_blocks};
}

/// Half tiles until the last block ends, where `wave` blocks run at a time, the next one starts when one ends, and a
/// launch when all blocks of the one before have ended. A tile takes as long in every block; all else takes nothing.
inline int64_t makespan(const std::vector<std::vector<int64_t>>& launches, int64_t wave) {
  int64_t begin = 0;
  for (const std::vector<int64_t>& blocks : launches) {
    std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> ends;
    int64_t last = begin;
    for (const int64_t half_tiles : blocks) {
      int64_t start = begin;
      if (static_cast<int64_t>(ends.size()) == wave) {
        start = ends.top();
        ends.pop();
      }
      ends.push(start + half_tiles);
      last = std::max(last, start + half_tiles);
    }
    begin = last;
  }
  return begin;
}

/// The share of `wave` blocks' time in which they multiply rows and columns that there are; the rest is padding of
/// buffers and tiles, and blocks that wait for others to end. A persistent rung has `wave` blocks.
inline double useful_share(const std::vector<int>& offsets, int64_t columns, int64_t wave, int rung) {
  const double half_tile = kGroupedTile * kGroupedTile / 2.0;
  const auto needed = static_cast<double>(offsets.back()) * static_cast<double>(columns) / half_tile;
  return needed /
         static_cast<double>(wave * makespan(half_tiles_of_blocks(offsets, columns, wave, rung), wave));
}

/// Bytes that a rung reads and writes before and after its products, of 16-bit values: rung 0 fills its buffers and
/// takes the results out of them, rungs 1 to 3 copy the rows that do not lie in their order.
inline int64_t copied_bytes(const std::vector<int>& offsets, int64_t depth, int64_t columns, int rung) {
  const int64_t rows = offsets.back(), experts = static_cast<int64_t>(offsets.size()) - 1;
  if (rung == 0) return 2 * (rows * depth + experts * largest_expert(offsets) * depth + 2 * rows * columns);
  return rung < kGroupedGatherRung ? 2 * 2 * rows * depth : 0;
}

}  // namespace tenfold::kernels
