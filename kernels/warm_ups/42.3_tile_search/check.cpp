#include <gtest/gtest.h>

#include EXERCISE

#include <algorithm>
#include <string>
#include <vector>

namespace {

using Offsets = std::vector<int64_t>;

Offsets offsets_of(const std::vector<int64_t>& counts) {
  Offsets offsets{0};
  for (const int64_t count : counts) offsets.push_back(offsets.back() + count);
  return offsets;
}

/// Whole tiles; one row more and one less; experts without rows at the begin, at the end and between; all rows to one;
/// one row for each; none.
std::vector<Offsets> routings() {
  std::vector<Offsets> all;
  for (const std::vector<int64_t>& counts : std::vector<std::vector<int64_t>>{{128},
                                                                              {256, 128},
                                                                              {127, 129, 128},
                                                                              {0, 300, 0, 0, 5, 0},
                                                                              {0, 0, 1},
                                                                              {0, 1000, 0},
                                                                              {1, 1, 1, 1, 1, 1, 1, 1},
                                                                              {0, 0}})
    all.push_back(offsets_of(counts));
  return all;
}

std::string text_of(const Offsets& offsets) {
  std::string text = "experts of";
  for (size_t e = 0; e + 1 < offsets.size(); ++e) text += " " + std::to_string(offsets[e + 1] - offsets[e]);
  return text + " rows";
}

/// More blocks than any list of tiles here is long.
constexpr int64_t kManyBlocks = 32;

TEST(Exercise42_3, ATileLiesInItsExpert) {
  for (const Offsets& offsets : routings()) {
    const auto experts = static_cast<int64_t>(offsets.size()) - 1;
    for (int64_t block = 0; block < kManyBlocks; ++block) {
      const Tile tile = tile_of_block(offsets, block);
      if (tile.expert == -1) continue;
      const std::string text = "hint: " + text_of(offsets) + ": block " + std::to_string(block) + " has rows " +
                               std::to_string(tile.begin) + " to " + std::to_string(tile.end) + " of expert " +
                               std::to_string(tile.expert);
      ASSERT_TRUE(tile.expert >= 0 && tile.expert < experts) << text << ", which there is not";
      const int64_t first = offsets[static_cast<size_t>(tile.expert)],
                    end = offsets[static_cast<size_t>(tile.expert) + 1];
      ASSERT_LT(tile.begin, tile.end) << text << ": a tile has a row at least, and an expert without rows no tile";
      ASSERT_LE(tile.end - tile.begin, kTile) << text << ", more than " << kTile;
      ASSERT_TRUE(tile.begin >= first && tile.end <= end)
          << text << ", whose rows are " << first << " to " << end << ": others want another weight";
    }
  }
}

TEST(Exercise42_3, EveryRowIsComputedOnce) {
  for (const Offsets& offsets : routings()) {
    std::vector<int> times(static_cast<size_t>(offsets.back()));
    for (int64_t block = 0; block < kManyBlocks; ++block) {
      const Tile tile = tile_of_block(offsets, block);
      if (tile.expert == -1) continue;
      for (int64_t row = std::max<int64_t>(0, tile.begin); row < std::min(tile.end, offsets.back()); ++row)
        ++times[static_cast<size_t>(row)];
    }
    for (size_t row = 0; row < times.size(); ++row) {
      ASSERT_EQ(times[row], 1) << "hint: " << text_of(offsets) << ": row " << row << " is computed " << times[row]
                               << " times and not once; how many tiles do the experts before it have?";
    }
  }
}

TEST(Exercise42_3, TheListHasNoGaps) {
  for (const Offsets& offsets : routings()) {
    bool ended = false;
    for (int64_t block = 0; block < kManyBlocks; ++block) {
      const bool works = tile_of_block(offsets, block).expert != -1;
      ASSERT_FALSE(works && ended) << "hint: " << text_of(offsets) << ": block " << block
                                   << " works, but one before it has nothing to do; an expert without rows has no tile,"
                                   << " not an empty one";
      ended = ended || !works;
    }
  }
}

TEST(Exercise42_3, EveryTileHasABlock) {
  for (const int64_t experts : {1, 2, 5, 64}) {
    for (const int64_t rows : {0, 1, 5, 64, 127, 128, 129, 1000}) {
      const int64_t with_rows = std::min(rows, experts), others = std::max<int64_t>(0, with_rows - 1);
      std::vector<int64_t> counts(static_cast<size_t>(experts));  // one row for each, and the rest for the first
      for (int64_t e = 0; e < with_rows; ++e) counts[static_cast<size_t>(e)] = e == 0 ? rows - others : 1;
      const int64_t tiles = others + (counts[0] + kTile - 1) / kTile, blocks = blocks_to_launch(rows, experts);
      ASSERT_GE(blocks, tiles) << "hint: " << rows << " rows of " << experts << " experts can be " << tiles
                               << " tiles, and there are " << blocks << " blocks";
      ASSERT_LE(blocks, (rows + kTile - 1) / kTile + experts)
          << "hint: " << blocks << " blocks for " << rows << " rows of " << experts
          << " experts; no division needs them";
    }
  }
}

}  // namespace
