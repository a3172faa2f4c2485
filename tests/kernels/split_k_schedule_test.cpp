// How split_k's work is dealt out to blocks: every iteration once, equal shares, waits that end; and what the page says
// of it.
#include "kernels/split_k/split_k_schedule.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "kernels/split_k/split_k.h"
#include "kernels/split_k/split_k_makespan.h"
#include "tests/support/support.h"

namespace tenfold::test {
namespace {

using kernels::IterationRange;
using kernels::iterations_of_block;
using kernels::kSplitKRungs;
using kernels::kStreamKRung;
using kernels::makespan;
using kernels::parts_of_block;
using kernels::quantisation_efficiency;
using kernels::range_of;
using kernels::range_with;
using kernels::share_of_block;
using kernels::split_k_parts;
using kernels::split_k_pieces;
using kernels::split_k_schedule;
using kernels::SplitKSchedule;
using kernels::stream_k;
using kernels::TilePart;
using kernels::two_tile_stream_k;

int64_t rounded_up(int64_t count, int64_t size) { return (count + size - 1) / size; }

/// Every kind of schedule for some tiles of some iterations on some blocks.
std::vector<SplitKSchedule> schedules() {
  std::vector<SplitKSchedule> all;
  for (const int64_t tiles : {1, 2, 3, 7, 12, 36, 131, 132, 133, 300}) {
    for (const int64_t depth : {1, 2, 5, 8, 31, 64}) {
      for (const int64_t blocks : {1, 2, 3, 5, 16, 80, 108, 132, 264}) {
        if (blocks <= depth) all.push_back(split_k_pieces(tiles, depth, blocks));
        if (blocks > tiles * depth) continue;
        all.push_back(stream_k(tiles, depth, blocks));
        all.push_back(two_tile_stream_k(tiles, depth, blocks));
      }
    }
  }
  return all;
}

std::string text_of(const SplitKSchedule& s) {
  const std::string kind =
      s.pieces > 0 ? std::to_string(s.pieces) + " pieces" : std::to_string(s.shared_tiles) + " tiles shared";
  return std::to_string(s.tiles) + " tiles of " + std::to_string(s.depth) + " iterations, " + kind + ", " +
         std::to_string(s.blocks) + " blocks";
}

TEST(SplitKSchedule, RangesFollowEachOtherAndDifferByOneAtMost) {
  for (int64_t count = 0; count < 70; ++count) {
    for (int64_t parts = 1; parts < 75; ++parts) {
      int64_t end = 0;
      for (int64_t index = 0; index < parts; ++index) {
        const IterationRange range = range_of(count, parts, index);
        ASSERT_EQ(range.begin, end);
        ASSERT_GE(range.end - range.begin, count / parts);
        ASSERT_LE(range.end - range.begin, rounded_up(count, parts));
        for (int64_t at = range.begin; at < range.end; ++at) ASSERT_EQ(range_with(count, parts, at), index);
        end = range.end;
      }
      ASSERT_EQ(end, count);
    }
  }
}

// Where a product of two of the numbers would no longer fit.
TEST(SplitKSchedule, RangesOfTheLargestLine) {
  constexpr int64_t kCount = (int64_t{1} << 25) * (int64_t{1} << 31), kParts = 0x7fffffff;
  EXPECT_EQ(range_of(kCount, kParts, kParts - 1).end, kCount);
  EXPECT_EQ(range_with(kCount, kParts, kCount - 1), kParts - 1);
}

TEST(SplitKSchedule, EveryIterationOnce) {
  for (const SplitKSchedule& s : schedules()) {
    std::vector<int> times(static_cast<size_t>(s.tiles * s.depth));
    for (int64_t block = 0; block < s.blocks; ++block) {
      for (const TilePart& part : parts_of_block(s, block)) {
        ASSERT_TRUE(part.tile >= 0 && part.tile < s.tiles && part.begin >= 0 && part.begin < part.end &&
                    part.end <= s.depth)
            << text_of(s);
        for (int64_t i = part.begin; i < part.end; ++i) ++times[static_cast<size_t>(part.tile * s.depth + i)];
      }
    }
    ASSERT_TRUE(std::ranges::all_of(times, [](int n) { return n == 1; })) << text_of(s);
  }
}

TEST(SplitKSchedule, SharesDifferByOneAtMost) {
  for (const SplitKSchedule& s : schedules()) {
    int64_t least = s.tiles * s.depth, most = 0;
    for (int64_t block = 0; block < s.blocks; ++block) {
      least = std::min(least, iterations_of_block(s, block));
      most = std::max(most, iterations_of_block(s, block));
    }
    ASSERT_LE(most - least, 1) << text_of(s);
  }
}

// What a block leaves to others comes first, so that nobody waits for a block that waits; and those it waits for have
// lower numbers. The kernel's loop, share + 1 up to the share of the tile's last iteration, names exactly them.
TEST(SplitKSchedule, AnOwnerWaitsForLowerBlocksThatWaitForNobodyBefore) {
  for (const SplitKSchedule& s : schedules()) {
    if (s.pieces > 0) continue;
    std::vector<std::vector<int64_t>> leave(static_cast<size_t>(s.tiles));  // shares, in the order of the line
    for (int64_t share = 0; share < s.blocks; ++share) {
      const std::vector<TilePart> parts = parts_of_block(s, share_of_block(s, share));
      for (size_t i = 0; i < parts.size(); ++i) {
        if (parts[i].begin == 0) continue;
        ASSERT_EQ(i, 0U) << text_of(s);
        leave[static_cast<size_t>(parts[i].tile)].push_back(share);
      }
    }
    for (int64_t block = 0; block < s.blocks; ++block) {
      const int64_t share = share_of_block(s, block);
      for (const TilePart& part : parts_of_block(s, block)) {
        if (part.begin > 0) continue;
        std::vector<int64_t> waits;
        if (part.end < s.depth) {
          const int64_t last = range_with(s.line(), s.blocks, (part.tile + 1) * s.depth - 1);
          for (int64_t other = share + 1; other <= last; ++other) waits.push_back(other);
        }
        ASSERT_EQ(waits, leave[static_cast<size_t>(part.tile)]) << text_of(s);
        for (const int64_t other : waits) ASSERT_LT(share_of_block(s, other), block) << text_of(s);
      }
    }
  }
}

TEST(SplitKSchedule, ATileOfTwoTileStreamKLiesInTwoSharesAtMost) {
  for (const SplitKSchedule& s : schedules()) {
    if (s.pieces > 0 || s.shared_tiles == s.tiles || s.shared_tiles == 0) continue;
    EXPECT_GT(s.shared_tiles, s.blocks) << text_of(s);
    EXPECT_LT(s.shared_tiles, 2 * s.blocks) << text_of(s);
    EXPECT_EQ((s.tiles - s.shared_tiles) % s.blocks, 0) << text_of(s);
    std::vector<int> shares(static_cast<size_t>(s.tiles));
    for (int64_t block = 0; block < s.blocks; ++block) {
      for (const TilePart& part : parts_of_block(s, block)) ++shares[static_cast<size_t>(part.tile)];
    }
    ASSERT_LE(*std::ranges::max_element(shares), 2) << text_of(s);
  }
}

TEST(SplitKSchedule, WholeWavesStayWhole) {
  EXPECT_EQ(two_tile_stream_k(264, 8, 132).shared_tiles, 0);
  EXPECT_EQ(two_tile_stream_k(265, 8, 132).shared_tiles, 133);
  EXPECT_EQ(two_tile_stream_k(133, 8, 132).shared_tiles, 133);
  EXPECT_EQ(two_tile_stream_k(36, 8, 132).shared_tiles, 36);
}

TEST(SplitKSchedule, MakespansByFormula) {
  for (const SplitKSchedule& s : schedules()) {
    for (const int64_t wave : {1, 16, 132}) {
      const int64_t iterations = s.tiles * s.depth, span = makespan(s, wave);
      ASSERT_GE(span, rounded_up(iterations, wave)) << text_of(s);
      if (s.pieces == 1) ASSERT_EQ(span, rounded_up(s.tiles, wave) * s.depth) << text_of(s);
      if (s.pieces == 0 && s.blocks == wave) ASSERT_EQ(span, rounded_up(iterations, wave)) << text_of(s);
      ASSERT_LE(quantisation_efficiency(s, wave), 1) << text_of(s);
    }
  }
}

TEST(SplitKSchedule, PartsByTheRuleCanBe) {
  for (const int64_t m : {1, 768, 4096}) {
    for (const int64_t k : {1, 256, 1000, 65536}) {
      for (const int64_t wave : {1, 40, 264}) {
        for (int rung = 1; rung < kSplitKRungs; ++rung) {
          const int64_t parts = split_k_parts(m, m, k, wave, rung), depth = kernels::split_k_depth(k);
          EXPECT_GE(parts, 1);
          EXPECT_LE(parts, rung < kStreamKRung ? depth : kernels::split_k_tiles(m, m) * depth);
          const SplitKSchedule s = split_k_schedule(m, m, k, parts, rung);
          if (rung >= kStreamKRung || parts > 1) EXPECT_LE(s.blocks, wave);
          if (rung < kStreamKRung && parts > 1) EXPECT_GE(depth / parts, 8);
        }
      }
    }
  }
}

// --- the page --------------------------------------------------------------------------------------------------------
std::string page() { return read_text(source_folder() / "kernels/split_k/README.md"); }

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof(text), "%.0f %%", 100 * share);
  return text;
}

/// Bytes of partial tiles, written and read.
std::string through_memory(const SplitKSchedule& s) {
  const int64_t bytes = 2 * kernels::partial_tiles(s) * kernels::kSplitKTile * kernels::kSplitKTile * 4;
  char text[16];
  std::snprintf(text, sizeof(text), "%.0f MiB", static_cast<double>(bytes) / (1 << 20));
  return bytes == 0 ? "-" : text;
}

TEST(SplitKSchedule, TheTableOfThePage) {
  constexpr int64_t kWave = 264;
  struct Size {
    int64_t m, n, k;
  };
  const std::string readme = page();
  for (const auto& [m, n, k] : {Size{768, 768, 4096}, Size{64, 4096, 4096}, Size{2048, 2048, 2048},
                                Size{2304, 2304, 2304}, Size{4096, 4096, 256}, Size{8192, 8192, 8192}}) {
    std::string line = "| " + std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) + " | " +
                       std::to_string(kernels::split_k_tiles(m, n)) + " x " +
                       std::to_string(kernels::split_k_depth(k)) + " |";
    for (const int rung : {0, 3, 4, 5}) {
      const int64_t parts = split_k_parts(m, n, k, kWave, rung);
      const SplitKSchedule s = split_k_schedule(m, n, k, parts, rung);
      line += " " + percent(quantisation_efficiency(s, kWave));
      if (rung == 3) line += ", " + std::to_string(parts);
      line += " |";
    }
    for (const int rung : {3, 4, 5})
      line += " " + through_memory(split_k_schedule(m, n, k, split_k_parts(m, n, k, kWave, rung), rung)) + " |";
    EXPECT_NE(readme.find(line), std::string::npos) << "kernels/split_k/README.md lacks the line\n" << line;
  }
}

TEST(SplitKSchedule, TheSecondWaveOfThePage) {
  const auto span = [](const SplitKSchedule& s) { return makespan(s, 264); };
  EXPECT_EQ(span(split_k_pieces(324, 72, 1)), 144);
  EXPECT_EQ(span(split_k_pieces(324, 72, 2)), 108);
  EXPECT_EQ(through_memory(split_k_pieces(324, 72, 2)), "81 MiB");
  EXPECT_EQ(span(stream_k(324, 72, 264)), 89);
}

/// A line for each of `wave` places where blocks run: a letter for each iteration, which names the tile; a small one
/// where the part's sums go through memory.
std::vector<std::string> picture(const SplitKSchedule& s, int64_t wave) {
  std::vector<std::string> places(static_cast<size_t>(wave));
  for (int64_t block = 0; block < s.blocks; ++block) {
    std::string& place = *std::ranges::min_element(places, {}, [](const std::string& text) { return text.size(); });
    for (const TilePart& part : parts_of_block(s, block)) {
      const bool left = s.pieces > 1 || part.begin > 0;
      place.append(static_cast<size_t>(part.end - part.begin), static_cast<char>((left ? 'a' : 'A') + part.tile));
    }
  }
  for (std::string& place : places) place.resize(static_cast<size_t>(makespan(s, wave)), '.');
  return places;
}

TEST(SplitKSchedule, ThePictureOfThePage) {
  constexpr int64_t kTiles = 9, kDepth = 4, kWave = 4;
  const std::vector<std::string> of[] = {
      picture(split_k_pieces(kTiles, kDepth, 1), kWave), picture(split_k_pieces(kTiles, kDepth, 2), kWave),
      picture(stream_k(kTiles, kDepth, kWave), kWave), picture(two_tile_stream_k(kTiles, kDepth, kWave), kWave)};
  const std::string readme = page();
  for (size_t place = 0; place < static_cast<size_t>(kWave); ++place) {
    std::string line;
    for (const auto& kind : of) line += "    " + kind[place];
    EXPECT_NE(readme.find(line), std::string::npos) << "kernels/split_k/README.md lacks the line\n" << line;
  }
}

}  // namespace
}  // namespace tenfold::test
