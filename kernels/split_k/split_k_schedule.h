#pragma once
// Which block computes which iterations of which tile. Plain arithmetic, the same for the host and for a kernel.

#include <cstdint>

namespace tenfold::kernels {

/// A range of iterations, [begin, end).
struct IterationRange {
  int64_t begin, end;
};

/// Range `index` of `count` iterations that are cut into `parts` ranges, one after the other. Their lengths differ by
/// one at most, the longer ones come first.
constexpr IterationRange range_of(int64_t count, int64_t parts, int64_t index) {
  const int64_t length = count / parts, longer = count % parts;
  const int64_t begin = index * length + (index < longer ? index : longer);
  return {begin, begin + length + (index < longer ? 1 : 0)};
}

/// The range that holds iteration `at` of `count` in `parts` ranges: range_of() the other way around.
constexpr int64_t range_with(int64_t count, int64_t parts, int64_t at) {
  const int64_t length = count / parts, longer = count % parts;
  const int64_t in_longer = longer * (length + 1);
  return at < in_longer ? at / (length + 1) : longer + (at - in_longer) / length;
}

/// What a block computes of a tile at a time: its iterations [begin, end).
struct TilePart {
  int64_t tile;
  int begin, end;
};

/// A GEMM's tiles, numbered row by row, `depth` iterations each, and how they are dealt out to `blocks` blocks:
///   - with `pieces` > 0 every tile is cut into that many, one for each block: 1 is data parallel, more are split-K;
///   - else the iterations of the first `shared_tiles` tiles are put in one line and cut into one share for each block
///     (stream-K), and the tiles after these are dealt out whole, in turn.
struct SplitKSchedule {
  int64_t tiles, depth, pieces, shared_tiles, blocks;
  constexpr int64_t line() const { return shared_tiles * depth; }
};

/// Every tile in `pieces` (1 to depth), one block each.
constexpr SplitKSchedule split_k_pieces(int64_t tiles, int64_t depth, int64_t pieces) {
  return {tiles, depth, pieces, 0, tiles * pieces};
}

/// All iterations of all tiles in one line, cut into `blocks` (1 to tiles * depth) shares.
constexpr SplitKSchedule stream_k(int64_t tiles, int64_t depth, int64_t blocks) {
  return {tiles, depth, 0, tiles, blocks};
}

/// Whole waves of whole tiles, and stream-K for what is left together with one wave: between one and two tiles for each
/// block, so that a tile lies in two shares at most ("two-tile Stream-K + data-parallel" of Osama et al.).
/// Fewer tiles than blocks are plain stream-K, whole waves plain data parallel.
constexpr SplitKSchedule two_tile_stream_k(int64_t tiles, int64_t depth, int64_t blocks) {
  const int64_t waves = tiles / blocks, left = tiles % blocks;
  const int64_t whole_waves = left == 0 || waves == 0 ? waves : waves - 1;
  return {tiles, depth, 0, tiles - whole_waves * blocks, blocks};
}

/// Block `block` of a grid that cuts tiles into pieces. Neighbouring blocks work on the same range of neighbouring
/// tiles, whose rows of A and columns of B they share in L2.
constexpr TilePart piece_of_block(const SplitKSchedule& s, int64_t block) {
  const IterationRange range = range_of(s.depth, s.pieces, block / s.tiles);
  return {block % s.tiles, static_cast<int>(range.begin), static_cast<int>(range.end)};
}

/// The share of block `block` in the line. The last block has the first share: it waits for those that come after it in
/// the line, blocks of lower numbers, which have begun before it.
constexpr int64_t share_of_block(const SplitKSchedule& s, int64_t block) { return s.blocks - 1 - block; }

/// The part of the line from `at` on, up to the end of its tile or to `end`.
constexpr TilePart part_at(const SplitKSchedule& s, int64_t at, int64_t end) {
  const int64_t tile = at / s.depth, begin = at % s.depth, left = end - at;
  return {tile, static_cast<int>(begin), static_cast<int>(begin + left < s.depth ? begin + left : s.depth)};
}

}  // namespace tenfold::kernels
