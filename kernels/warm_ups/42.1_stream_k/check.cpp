#include <gtest/gtest.h>

#include EXERCISE

#include <algorithm>
#include <string>

namespace {

struct Problem {
  int64_t tiles, depth, blocks;
};

/// Fewer tiles than blocks, as many, a few more; lines that the blocks divide, and lines that they do not.
std::vector<Problem> problems() {
  std::vector<Problem> all;
  for (const int64_t tiles : {1, 2, 9, 36, 132, 133, 300}) {
    for (const int64_t depth : {1, 4, 7, 64}) {
      for (const int64_t blocks : {1, 4, 5, 108, 132}) {
        if (blocks <= tiles * depth) all.push_back({tiles, depth, blocks});
      }
    }
  }
  return all;
}

std::string text_of(const Problem& p) {
  return std::to_string(p.tiles) + " tiles of " + std::to_string(p.depth) + " iterations on " +
         std::to_string(p.blocks) + " blocks";
}

TEST(Exercise42_1, EveryPartLiesInItsTile) {
  for (const Problem& p : problems()) {
    for (int64_t block = 0; block < p.blocks; ++block) {
      for (const Part& part : parts_of_block(p.tiles, p.depth, p.blocks, block)) {
        ASSERT_TRUE(part.tile >= 0 && part.tile < p.tiles && part.begin >= 0 && part.begin < part.end &&
                    part.end <= p.depth)
            << "hint: block " << block << " has iterations " << part.begin << " to " << part.end << " of tile "
            << part.tile << ", " << text_of(p) << "; a part ends with its tile or with the share";
      }
    }
  }
}

TEST(Exercise42_1, EveryIterationIsDoneOnce) {
  for (const Problem& p : problems()) {
    std::vector<int> times(static_cast<size_t>(p.tiles * p.depth));
    for (int64_t block = 0; block < p.blocks; ++block) {
      for (const Part& part : parts_of_block(p.tiles, p.depth, p.blocks, block)) {
        for (int64_t i = part.begin; i < part.end; ++i) {
          const auto at = static_cast<size_t>(part.tile * p.depth + i);
          if (at < times.size()) ++times[at];
        }
      }
    }
    for (size_t at = 0; at < times.size(); ++at) {
      const auto tile = static_cast<int64_t>(at) / p.depth, iteration = static_cast<int64_t>(at) % p.depth;
      ASSERT_EQ(times[at], 1) << "hint: iteration " << iteration << " of tile " << tile << " is computed " << times[at]
                              << " times and not once, " << text_of(p)
                              << "; does each share begin where the one before ends?";
    }
  }
}

TEST(Exercise42_1, SharesDifferByOneAtMost) {
  for (const Problem& p : problems()) {
    int64_t least = p.tiles * p.depth, most = 0;
    for (int64_t block = 0; block < p.blocks; ++block) {
      int64_t iterations = 0;
      for (const Part& part : parts_of_block(p.tiles, p.depth, p.blocks, block)) iterations += part.end - part.begin;
      least = std::min(least, iterations), most = std::max(most, iterations);
    }
    ASSERT_LE(most - least, 1) << "hint: " << text_of(p) << ": one block has " << least << " iterations, another "
                               << most << ", and all wait for that one";
  }
}

TEST(Exercise42_1, OnlyTheFirstPartOfAShareBeginsWithinATile) {
  for (const Problem& p : problems()) {
    for (int64_t block = 0; block < p.blocks; ++block) {
      const std::vector<Part> parts = parts_of_block(p.tiles, p.depth, p.blocks, block);
      for (size_t i = 1; i < parts.size(); ++i) {
        ASSERT_EQ(parts[i].begin, 0) << "hint: block " << block << " leaves a second partial tile to another block, "
                                     << text_of(p) << "; a share is one range of the line, walked from its begin";
      }
    }
  }
}

}  // namespace
