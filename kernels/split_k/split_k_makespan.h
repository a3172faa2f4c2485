#pragma once
// How long a schedule takes, counted in iterations, and what it moves on top of A, B and C. For the host.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "split_k_schedule.h"

namespace tenfold::kernels {

/// What a block computes, in its order.
inline std::vector<TilePart> parts_of_block(const SplitKSchedule& s, int64_t block) {
  if (s.pieces > 0) return {piece_of_block(s, block)};
  std::vector<TilePart> parts;
  const IterationRange share = range_of(s.line(), s.blocks, share_of_block(s, block));
  for (int64_t at = share.begin; at < share.end; at += parts.back().end - parts.back().begin)
    parts.push_back(part_at(s, at, share.end));
  for (int64_t tile = s.shared_tiles + block; tile < s.tiles; tile += s.blocks)
    parts.push_back({tile, 0, static_cast<int>(s.depth)});
  return parts;
}

inline int64_t iterations_of_block(const SplitKSchedule& s, int64_t block) {
  int64_t iterations = 0;
  for (const TilePart& part : parts_of_block(s, block)) iterations += part.end - part.begin;
  return iterations;
}

/// Iterations until the last block ends, where `wave` blocks run at a time and the next one starts when one ends. An
/// iteration takes as long in every block; starting, storing and fixing up take nothing.
inline int64_t makespan(const SplitKSchedule& s, int64_t wave) {
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> ends;
  int64_t last = 0;
  for (int64_t block = 0; block < s.blocks; ++block) {
    int64_t start = 0;
    if (static_cast<int64_t>(ends.size()) == wave) {
      start = ends.top();
      ends.pop();
    }
    ends.push(start + iterations_of_block(s, block));
    last = std::max(last, start + iterations_of_block(s, block));
  }
  return last;
}

/// The share of `wave` blocks' time in which they compute: 1 where all of them end together.
inline double quantisation_efficiency(const SplitKSchedule& s, int64_t wave) {
  return static_cast<double>(s.tiles * s.depth) / static_cast<double>(wave * makespan(s, wave));
}

/// Partial tiles that go through memory: every piece of split-K (for rungs 1 and 3); of stream-K the parts that do not
/// begin their tile.
inline int64_t partial_tiles(const SplitKSchedule& s) {
  if (s.pieces > 0) return s.pieces == 1 ? 0 : s.blocks;
  int64_t partial = 0;
  for (int64_t block = 0; block < s.blocks; ++block) {
    for (const TilePart& part : parts_of_block(s, block)) partial += part.begin > 0 ? 1 : 0;
  }
  return partial;
}

}  // namespace tenfold::kernels
