#pragma once
// How long the blocks of each rung take for a routing, counted in tiles, and what is copied besides. For the host.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "grouped_gemm.h"
#include "grouped_gemm_schedule.h"

namespace tenfold::kernels {

/// Offsets (experts + 1) of a routing in which the first expert has `largest` of `rows` rows, or all where there are no
/// more or no others, and the others' numbers rise evenly from half to one and a half times their mean.
inline std::vector<int> uneven_routing(int64_t rows, int64_t experts, int64_t largest) {
  const int64_t first = experts == 1 ? rows : std::min(largest, rows), others = experts - 1;
  std::vector<int> offsets{0, static_cast<int>(first)};
  for (int64_t i = 1; i <= others; ++i) {
    const int64_t of_all = others * (2 * others - 1), of_these = i * (others + i - 1);
    offsets.push_back(static_cast<int>(first + (rows - first) * of_these / of_all));
  }
  return offsets;
}

/// The same for a routing that gives all experts as many rows, or one more.
inline std::vector<int> even_routing(int64_t rows, int64_t experts) {
  std::vector<int> offsets{0};
  for (int64_t e = 1; e <= experts; ++e) offsets.push_back(static_cast<int>(rows * e / experts));
  return offsets;
}

/// Calls work(rows of an expert) for each.
template <class Work>
void for_each_expert(const std::vector<int>& offsets, const Work& work) {
  for (size_t e = 0; e + 1 < offsets.size(); ++e) work(int64_t{offsets[e + 1]} - offsets[e]);
}

inline int64_t largest_expert(const std::vector<int>& offsets) {
  int64_t largest = 0;
  for_each_expert(offsets, [&](int64_t rows) { largest = std::max(largest, rows); });
  return largest;
}

/// The list of tiles that the blocks of rungs 2 to 5 have between them.
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

/// How many tiles each block of each launch of a rung's products computes: one vector for a launch. `blocks` counts
/// from rung 3 on.
inline std::vector<std::vector<int64_t>> tiles_of_blocks(const std::vector<int>& offsets, int64_t columns,
                                                         int64_t blocks, int rung) {
  const int64_t experts = static_cast<int64_t>(offsets.size()) - 1, column_tiles = grouped_tiles(columns);
  const auto one_each = [](int64_t tiles) { return std::vector<int64_t>(static_cast<size_t>(tiles), 1); };
  if (rung == 0) return {one_each(experts * grouped_tiles(largest_expert(offsets)) * column_tiles)};
  if (rung == 1) {
    std::vector<std::vector<int64_t>> launches;
    for_each_expert(offsets, [&](int64_t rows) {
      if (rows > 0) launches.push_back(one_each(grouped_tiles(rows) * column_tiles));
    });
    return launches;
  }
  const int64_t grid = rung == 2 ? most_row_tiles(offsets.back(), experts) * column_tiles : blocks;
  std::vector<int64_t> of_blocks(static_cast<size_t>(grid));
  for (size_t at = 0; at < grouped_tile_list(offsets, columns).size(); ++at) ++of_blocks[at % of_blocks.size()];
  return {of_blocks};
}

/// Tiles until the last block ends, where `wave` blocks run at a time, the next one starts when one ends, and a launch
/// when all blocks of the one before have ended. A tile takes as long in every block; all else takes nothing.
inline int64_t makespan(const std::vector<std::vector<int64_t>>& launches, int64_t wave) {
  int64_t begin = 0;
  for (const std::vector<int64_t>& blocks : launches) {
    std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> ends;
    int64_t last = begin;
    for (const int64_t tiles : blocks) {
      int64_t start = begin;
      if (static_cast<int64_t>(ends.size()) == wave) {
        start = ends.top();
        ends.pop();
      }
      ends.push(start + tiles);
      last = std::max(last, start + tiles);
    }
    begin = last;
  }
  return begin;
}

/// The share of `wave` blocks' time in which they compute results that are wanted. The rest goes to rows that are
/// padding, of a buffer or of a tile, and to waiting for the last block. A persistent rung has `wave` blocks.
inline double useful_share(const std::vector<int>& offsets, int64_t columns, int64_t wave, int rung) {
  const int64_t wanted = offsets.back() * columns, span = makespan(tiles_of_blocks(offsets, columns, wave, rung), wave);
  return static_cast<double>(wanted) / static_cast<double>(wave * span * kGroupedTile * kGroupedTile);
}

/// Rows that a rung multiplies, padding among them: all of a buffer or tile, or, with `tails`, those of warps that have
/// one at least.
inline int64_t multiplied_rows(const std::vector<int>& offsets, int rung) {
  const int64_t whole = rung > kGroupedGatherRung ? kGroupedTile / 2 : kGroupedTile;
  const int64_t largest = largest_expert(offsets);
  int64_t rows = 0;
  for_each_expert(offsets, [&](int64_t own) { rows += ((rung == 0 ? largest : own) + whole - 1) / whole * whole; });
  return rows;
}

/// Bytes that a rung reads and writes before and after its products, of 16-bit values: rung 0 fills its buffers and
/// takes the results out of them, rungs 1 to 3 copy the rows that do not lie in their order.
inline int64_t copied_bytes(const std::vector<int>& offsets, int64_t depth, int64_t columns, int rung) {
  const int64_t rows = offsets.back(), experts = static_cast<int64_t>(offsets.size()) - 1;
  if (rung == 0) return 2 * (rows * depth + experts * largest_expert(offsets) * depth + 2 * rows * columns);
  return rung < kGroupedGatherRung ? 2 * 2 * rows * depth : 0;
}

}  // namespace tenfold::kernels
