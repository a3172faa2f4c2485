// How a mixture of experts' tiles are dealt out to blocks: every result once, whatever the routing; and what the page
// and its figure say of it.
#include "kernels/grouped_gemm/grouped_gemm_schedule.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <numeric>
#include <string>

#include "grouped_gemm_figure.h"
#include "kernels/grouped_gemm/grouped_gemm_case.h"
#include "kernels/grouped_gemm/grouped_gemm_makespan.h"
#include "tests/support/support.h"

namespace tenfold::test {
namespace {

using kernels::even_routing;
using kernels::grouped_tile_list;
using kernels::grouped_tiles;
using kernels::GroupedTile;
using kernels::kGroupedGatherRung;
using kernels::kGroupedGemmRungs;
using kernels::kGroupedPersistentRung;
using kernels::kGroupedTile;
using kernels::kGroupedWaveAssumed;
using kernels::makespan;
using kernels::most_row_tiles;
using kernels::multiplied_rows;
using kernels::tiles_of_blocks;
using kernels::uneven_routing;
using kernels::useful_share;
using Offsets = std::vector<int>;

std::vector<Offsets> routings() {
  std::vector<Offsets> all{{0, 0, 0}, {0, 1}, {0, 0, 129, 129, 130}, {0, 1024, 2048 + 1, 2048 + 1}};
  for (const int64_t rows : {0, 1, 127, 128, 129, 1000, 5000}) {
    for (const int64_t experts : {1, 2, 7, 64}) {
      all.push_back(even_routing(rows, experts));
      for (const int64_t largest : {int64_t{0}, rows / 3, rows}) all.push_back(uneven_routing(rows, experts, largest));
    }
  }
  return all;
}

std::string text_of(const Offsets& offsets) {
  return std::to_string(offsets.size() - 1) + " experts, " + std::to_string(offsets.back()) + " rows, at the most " +
         std::to_string(kernels::largest_expert(offsets));
}

TEST(GroupedGemmSchedule, RoutingsGiveOutEveryRow) {
  for (const Offsets& offsets : routings()) {
    ASSERT_EQ(offsets.front(), 0);
    ASSERT_TRUE(std::ranges::is_sorted(offsets)) << text_of(offsets);
  }
  EXPECT_EQ(uneven_routing(1000, 5, 400), (Offsets{0, 400, 485, 614, 785, 1000}));
  EXPECT_EQ(uneven_routing(1000, 5, 4000), (Offsets{0, 1000, 1000, 1000, 1000, 1000}));
  EXPECT_EQ(even_routing(10, 4), (Offsets{0, 2, 5, 7, 10}));
}

// Of whole tiles, so that no result is two blocks' and none is nobody's.
TEST(GroupedGemmSchedule, EveryTileOfEveryExpertOnce) {
  for (const Offsets& offsets : routings()) {
    for (const int64_t columns : {1, 128, 129, 1200}) {
      const std::vector<GroupedTile> list = grouped_tile_list(offsets, columns);
      std::vector<int> times(static_cast<size_t>(offsets.back()) * static_cast<size_t>(grouped_tiles(columns)));
      for (const GroupedTile& tile : list) {
        const auto expert = static_cast<size_t>(tile.expert);
        ASSERT_TRUE(tile.row >= offsets[expert] && tile.row < tile.row_end && tile.row_end == offsets[expert + 1] &&
                    (tile.row - offsets[expert]) % kGroupedTile == 0 && tile.column % kGroupedTile == 0 &&
                    tile.column < columns)
            << text_of(offsets);
        for (int row = tile.row; row < std::min(tile.row + kGroupedTile, tile.row_end); ++row)
          ++times[static_cast<size_t>(row * grouped_tiles(columns) + tile.column / kGroupedTile)];
      }
      ASSERT_TRUE(std::ranges::all_of(times, [](int n) { return n == 1; })) << text_of(offsets);
    }
  }
}

// A grid of this size has a block for every tile, whatever the routing; and some routing needs all of them.
TEST(GroupedGemmSchedule, TheGridOfRung2IsLargeEnoughAndNoLarger) {
  const auto needed = [](const Offsets& offsets) { return static_cast<int64_t>(grouped_tile_list(offsets, 1).size()); };
  for (const Offsets& offsets : routings()) {
    const auto experts = static_cast<int64_t>(offsets.size()) - 1;
    ASSERT_LE(needed(offsets), most_row_tiles(offsets.back(), experts)) << text_of(offsets);
  }
  for (const int experts : {1, 2, 5}) {  // one row for each, and all others for the first
    for (int rows = 1; rows < 400; ++rows) {
      Offsets worst{0};
      for (int e = 0; e < experts; ++e) {
        const int others = std::min(rows, experts) - 1;
        worst.push_back(worst.back() + (e == 0 ? rows - others : e <= others ? 1 : 0));
      }
      ASSERT_EQ(worst.back(), rows);
      ASSERT_EQ(needed(worst), most_row_tiles(rows, experts)) << text_of(worst);
    }
  }
}

TEST(GroupedGemmSchedule, BlocksHaveTheListBetweenThemAndDifferByOneTile) {
  for (const Offsets& offsets : routings()) {
    const auto tiles = static_cast<int64_t>(grouped_tile_list(offsets, 300).size());
    for (int rung = 1; rung < kGroupedGemmRungs; ++rung) {
      for (const int64_t blocks : {1, 3, 264}) {
        int64_t sum = 0;
        for (const auto& launch : tiles_of_blocks(offsets, 300, blocks, rung)) {
          sum += std::accumulate(launch.begin(), launch.end(), int64_t{0});
          if (rung >= kGroupedPersistentRung) {
            const auto [least, most] = std::ranges::minmax(launch);
            ASSERT_LE(most - least, 1) << text_of(offsets);
          }
        }
        ASSERT_EQ(sum, tiles) << text_of(offsets) << ", rung " << rung;
      }
    }
  }
}

TEST(GroupedGemmSchedule, MakespansByFormula) {
  const auto waves = [](int64_t tiles, int64_t wave) { return (tiles + wave - 1) / wave; };
  for (const Offsets& offsets : routings()) {
    for (const int64_t wave : {1, 16, 264}) {
      const auto span = [&](int rung) { return makespan(tiles_of_blocks(offsets, 300, wave, rung), wave); };
      int64_t one_by_one = 0, experts = 0;
      kernels::for_each_expert(offsets, [&](int64_t rows) {
        one_by_one += waves(grouped_tiles(rows) * 3, wave);
        ++experts;
      });
      const auto tiles = static_cast<int64_t>(grouped_tile_list(offsets, 300).size());
      ASSERT_EQ(span(0), waves(experts * grouped_tiles(kernels::largest_expert(offsets)) * 3, wave));
      ASSERT_EQ(span(1), one_by_one) << text_of(offsets);
      for (int rung = 2; rung < kGroupedGemmRungs; ++rung) ASSERT_EQ(span(rung), waves(tiles, wave)) << rung;
      ASSERT_LE(span(2), span(1)) << text_of(offsets);
    }
  }
}

// --- the page --------------------------------------------------------------------------------------------------------
std::string formatted(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}
std::string percent(double share) { return formatted(share < 0.095 ? "%.1f %%" : "%.0f %%", 100 * share); }
std::string mebibytes(int64_t bytes) {
  return formatted("%.0f MiB", static_cast<double>(bytes) / static_cast<double>(1 << 20));
}

TEST(GroupedGemmSchedule, TheTableOfThePage) {
  constexpr int64_t kDepth = 2048, kColumns = 2048;
  struct Case {
    int64_t rows, experts, largest;
  };
  const std::string readme = read_text(source_folder() / "kernels/grouped_gemm/README.md");
  for (const auto& [rows, experts, largest] :
       {Case{16384, 1, 16384}, Case{16384, 8, 2048}, Case{16384, 8, 6144}, Case{16384, 64, 256}, Case{16384, 64, 768},
        Case{16384, 64, 4096}, Case{2048, 128, 16}, Case{2048, 128, 64}}) {
    const bool even = largest * experts == rows;
    const Offsets offsets = even ? even_routing(rows, experts) : uneven_routing(rows, experts, largest);
    ASSERT_EQ(kernels::largest_expert(offsets), largest);
    std::string line = "| " + std::to_string(rows) + ", " + std::to_string(experts) + ", " + std::to_string(largest) +
                       " | " + std::to_string(grouped_tile_list(offsets, kColumns).size()) + " of " +
                       std::to_string(most_row_tiles(rows, experts) * grouped_tiles(kColumns)) + " |";
    for (const int rung : {0, 1, kGroupedPersistentRung})
      line += " " + percent(useful_share(offsets, kColumns, kGroupedWaveAssumed, rung)) + " |";
    for (const int rung : {0, kGroupedGatherRung, kGroupedGatherRung + 1}) {
      line += " " + percent(static_cast<double>(rows) / static_cast<double>(multiplied_rows(offsets, rung))) + " |";
    }
    for (const int rung : {0, kGroupedPersistentRung})
      line += " " + mebibytes(kernels::copied_bytes(offsets, kDepth, kColumns, rung)) + " |";
    EXPECT_NE(readme.find(line), std::string::npos) << "kernels/grouped_gemm/README.md lacks the line\n" << line;
  }
}

/// A line for each of `wave` places where blocks run: a letter for each tile, which names the expert; a small one where
/// the tile holds no row of it. `launches`: the tiles of each launch, in the order of its blocks.
std::vector<std::string> picture(const std::vector<std::string>& launches, size_t wave) {
  std::vector<std::string> places(wave);
  for (const std::string& tiles : launches) {
    const size_t begin = places[0].size();
    for (size_t at = 0; at < tiles.size(); ++at) places[at % wave] += tiles[at];
    const size_t end = begin + (tiles.size() + wave - 1) / wave;
    for (std::string& place : places) place.resize(end, '.');
  }
  return places;
}

TEST(GroupedGemmSchedule, ThePictureOfThePage) {
  const Offsets offsets{0, 300, 300, 340, 470};
  std::vector<std::string> padded(1), launches, list(1);
  for (int e = 0; e < 4; ++e) {
    const int rows = offsets[static_cast<size_t>(e) + 1] - offsets[static_cast<size_t>(e)];
    for (int tile = 0; tile < grouped_tiles(kernels::largest_expert(offsets)); ++tile)
      padded[0] += static_cast<char>((tile * kGroupedTile < rows ? 'A' : 'a') + e);
    if (rows > 0) launches.emplace_back(static_cast<size_t>(grouped_tiles(rows)), static_cast<char>('A' + e));
  }
  for (const GroupedTile& tile : grouped_tile_list(offsets, 1)) list[0] += static_cast<char>('A' + tile.expert);
  const auto of_padded = picture(padded, 4), of_launches = picture(launches, 4), of_list = picture(list, 4);
  EXPECT_EQ(static_cast<int64_t>(of_padded[0].size()), makespan(tiles_of_blocks(offsets, 1, 4, 0), 4));
  EXPECT_EQ(static_cast<int64_t>(of_launches[0].size()), makespan(tiles_of_blocks(offsets, 1, 4, 1), 4));
  EXPECT_EQ(static_cast<int64_t>(of_list[0].size()), makespan(tiles_of_blocks(offsets, 1, 4, 3), 4));
  const std::string readme = read_text(source_folder() / "kernels/grouped_gemm/README.md");
  for (size_t place = 0; place < 4; ++place) {
    const std::string line =
        "    " + of_padded[place] + "         " + of_launches[place] + "           " + of_list[place] + "\n";
    EXPECT_NE(readme.find(line), std::string::npos) << "kernels/grouped_gemm/README.md lacks the line\n" << line;
  }
}

TEST(GroupedGemmSchedule, TheFigureOfThePage) {
  const auto drawn = build_folder() / "tests/grouped_gemm_waste.svg",
             committed = source_folder() / "docs/figures/grouped_gemm_waste.svg";
  const std::string svg = WasteFigure().svg(), page = read_text(source_folder() / "kernels/grouped_gemm/README.md");
  EXPECT_NE(page.find("![" + WasteFigure().alt() + "]("), std::string::npos) << WasteFigure().alt();
  if (read_text(committed) == svg) return;
  write_text(drawn, svg);
  FAIL() << "the schedule's functions draw it otherwise; look at it, then: cp " << drawn << " " << committed;
}

}  // namespace
}  // namespace tenfold::test
