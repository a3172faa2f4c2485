// The Hopper rung's arithmetic, on the CPU: boxes as TMA lays them into shared memory, read again as wgmma reads them
// through its descriptors. The two models are written from the documents, apart from the code under test.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

#include "kernel_device.h"
#include "kernels/hgemm/hgemm_tile_order.h"
#include "kernels/hgemm/hgemm_tma.h"

namespace tenfold::test {
namespace {

namespace k = kernels;

constexpr uint32_t kNothing = 0xffffffffU;

/// Shared memory of 16-bit elements, each of which says which one it is.
using Shared = std::vector<uint32_t>;

/// What TMA makes of a box of rows of 128 bytes: packet p of row r lies at packet p xor r mod 8 of its row (CUDA Driver
/// API, CU_TENSOR_MAP_SWIZZLE_128B). Element (x, y) of the tensor is y * 65536 + x, and nothing outside of it.
void copy_box(Shared& shared, uint32_t address, const k::HopperTensor& tensor, uint64_t x0, uint64_t y0) {
  ASSERT_EQ(tensor.box[0] * 2, 128U);
  ASSERT_EQ(address % 1024, 0U);
  for (uint32_t row = 0; row < tensor.box[1]; ++row) {
    for (uint32_t column = 0; column < tensor.box[0]; ++column) {
      const uint32_t packet = column / 8 ^ row % 8;
      const uint64_t x = x0 + column, y = y0 + row;
      const bool inside = x < tensor.size[0] && y < tensor.size[1];
      shared[address / 2 + row * 64 + packet * 8 + column % 8] =
          inside ? static_cast<uint32_t>(y * 65536 + x) : kNothing;
    }
  }
}

struct Descriptor {
  uint32_t address, leading, stride, swizzle, base_offset;
};
/// The fields as the PTX ISA places them.
Descriptor fields_of(uint64_t bits) {
  const auto field = [&](int low, int width) {
    return static_cast<uint32_t>(bits >> low & ((uint64_t{1} << width) - 1));
  };
  return {field(0, 14) * 16, field(16, 14) * 16, field(32, 14) * 16, field(62, 2), field(49, 3)};
}

/// The element at a byte address that the 128-byte swizzle is applied to: bits 4 to 6 of an address change with bits 7
/// to 9.
uint32_t element_at(const Shared& shared, uint32_t address) {
  const uint32_t packet = address / 16 % 8 ^ address / 128 % 8;
  return shared[(address / 128 * 128 + packet * 16 + address % 16) / 2];
}

/// Row r and depth d of an operand with neighbours along the depth, in the 128-byte swizzle.
uint32_t along_depth(const Shared& shared, const Descriptor& d, uint32_t row, uint32_t depth) {
  return element_at(shared, d.address + row / 8 * d.stride + row % 8 * 128 + depth * 2);
}
/// Column c and depth d of an operand with neighbours along the columns.
uint32_t along_columns(const Shared& shared, const Descriptor& d, uint32_t column, uint32_t depth) {
  return element_at(shared,
                    d.address + column / 64 * d.leading + depth / 8 * d.stride + depth % 8 * 128 + column % 64 * 2);
}

constexpr uint32_t kStage = k::kHopperBytesOfA + k::kHopperBytesOfB;

TEST(HgemmTma, StagesFitIntoSharedMemoryAndBeginWhereTheSwizzleDoes) {
  static_assert(k::kHopperStages * kStage + 1024 + 1024 <= 227 * 1024);
  static_assert(k::kHopperStages * kStage + 8 * k::kHopperRooms * k::kHopperRoomBytes + 1024 + 1024 <= 227 * 1024);
  static_assert(k::kHopperRoomBytes % 1024 == 0 && (k::kHopperColumns / k::kHopperBoxWidth) % k::kHopperCluster == 0);
  static_assert(k::kHopperBytesOfA % 1024 == 0 && kStage % 1024 == 0 && k::kHopperBoxBytesOfB % 1024 == 0);
  static_assert(k::kHopperBoxBytesOfB * (k::kHopperColumns / k::kHopperBoxWidth) == k::kHopperBytesOfB);
  EXPECT_EQ(k::hopper_tensor_a(300, 200).row_bytes, 400U);
  EXPECT_EQ(k::hopper_tensor_a(300, 200).size[0], 200U);
  EXPECT_EQ(k::hopper_tensor_b(200, 72).row_bytes, 144U);
  EXPECT_EQ(k::hopper_tensor_b(200, 72).size[1], 200U);
  EXPECT_EQ(k::hopper_tensor_a(1, 1).box[0] * k::hopper_tensor_a(1, 1).box[1] * 2, k::kHopperBytesOfA);
  EXPECT_EQ(k::hopper_tensor_c(300, 72).row_bytes, 144U);
  EXPECT_EQ(k::hopper_tensor_c(300, 72).size[1], 300U);
  EXPECT_EQ(k::hopper_tensor_c(1, 1).box[0] * k::hopper_tensor_c(1, 1).box[1] * 2, k::kHopperRoomBytes);
  EXPECT_EQ(k::hopper_tensor_b(1, 1).box[0] * k::hopper_tensor_b(1, 1).box[1] * 2, k::kHopperBoxBytesOfB);
}

TEST(HgemmTma, TheSwizzleOf128Bytes) {
  std::set<uint32_t> places;
  for (uint32_t offset = 0; offset < 4096; ++offset) {
    const uint32_t row = offset / 128, packet = offset % 128 / 16;
    EXPECT_EQ(k::swizzle_128(offset), row * 128 + (packet ^ row % 8) * 16 + offset % 16);
    EXPECT_EQ(k::swizzle_128(k::swizzle_128(offset)), offset);
    places.insert(k::swizzle_128(offset));
  }
  EXPECT_EQ(places.size(), 4096U);
}

TEST(HgemmTma, DescriptorsHoldWhatTheyAreGiven) {
  const Descriptor d = fields_of(k::wgmma_descriptor(0x30400, 8192, 1024));
  EXPECT_EQ(d.address, 0x30400U);
  EXPECT_EQ(d.leading, 8192U);
  EXPECT_EQ(d.stride, 1024U);
  EXPECT_EQ(d.swizzle, 1U) << "1 is the 128-byte swizzle";
  EXPECT_EQ(d.base_offset, 0U);
}

TEST(HgemmTma, WgmmaFindsEveryElementOfAWhereTmaPutIt) {
  // The last tile reaches over the edge on both sides.
  const k::HopperTensor tensor = k::hopper_tensor_a(200, 104);
  for (const uint32_t stage : {0U, 3U}) {
    Shared shared(k::kHopperStages * kStage / 2, kNothing - 1);
    const uint32_t address = stage * kStage;
    copy_box(shared, address, tensor, 64, 128);
    for (int group = 0; group < 2; ++group) {
      for (int step = 0; step < k::kHopperDepth / 16; ++step) {
        const Descriptor d = fields_of(k::hopper_descriptor_a(address, group, step));
        for (uint32_t row = 0; row < 64; ++row) {
          for (uint32_t depth = 0; depth < 16; ++depth) {
            const uint32_t y = 128 + static_cast<uint32_t>(group) * 64 + row,
                           x = 64 + static_cast<uint32_t>(step) * 16 + depth;
            ASSERT_EQ(along_depth(shared, d, row, depth), y < 200 && x < 104 ? y * 65536 + x : kNothing)
                << y << ", " << x;
          }
        }
      }
    }
  }
}

TEST(HgemmTma, WgmmaFindsEveryElementOfBWhereTmaPutIt) {
  const k::HopperTensor tensor = k::hopper_tensor_b(100, 456);
  for (const uint32_t stage : {0U, 3U}) {
    Shared shared(k::kHopperStages * kStage / 2, kNothing - 1);
    const uint32_t address = stage * kStage + k::kHopperBytesOfA;
    for (uint32_t box = 0; box < 4; ++box)
      copy_box(shared, address + box * k::kHopperBoxBytesOfB, tensor, 256 + box * 64, 64);
    for (int step = 0; step < k::kHopperDepth / 16; ++step) {
      const Descriptor d = fields_of(k::hopper_descriptor_b(address, step));
      for (uint32_t column = 0; column < 256; ++column) {
        for (uint32_t depth = 0; depth < 16; ++depth) {
          const uint32_t x = 256 + column, y = 64 + static_cast<uint32_t>(step) * 16 + depth;
          ASSERT_EQ(along_columns(shared, d, column, depth), y < 100 && x < 456 ? y * 65536 + x : kNothing)
              << y << ", " << x;
        }
      }
    }
  }
}

TEST(HgemmTma, BlocksWalkOverEveryTileOnceAndStayTogether) {
  for (const auto& [rows, columns] :
       std::vector<std::pair<int, int>>{{1, 1}, {8, 5}, {7, 3}, {9, 4}, {17, 1}, {1, 30}, {64, 32}}) {
    std::set<std::pair<int, int>> seen;
    for (int block = 0; block < rows * columns; ++block) {
      const auto [row, column] = k::hgemm_tile(block, rows, columns);
      EXPECT_TRUE(row >= 0 && row < rows && column >= 0 && column < columns) << row << ", " << column;
      seen.emplace(row, column);
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(rows) * static_cast<size_t>(columns));
  }
  // 64 blocks in a row use 8 rows of tiles of A and 8 columns of B; row by row it would be 2 and 32.
  std::set<int> rows, columns;
  for (int block = 128; block < 192; ++block) {
    const auto [row, column] = k::hgemm_tile(block, 64, 32);
    rows.insert(row), columns.insert(column);
  }
  EXPECT_EQ(rows.size(), 8U);
  EXPECT_EQ(columns.size(), 8U);
}

/// Where a Hilbert curve over 32 x 32 places is after `steps`: quarter by quarter, each turned so that its end meets
/// the next one's beginning. D. Hilbert: "Ueber die stetige Abbildung einer Linie auf ein Flaechenstueck",
/// Mathematische Annalen 38, 1891.
k::HgemmTile on_hilbert_curve(int steps) {
  int row = 0, column = 0;
  for (int side = 1; side < 32; side *= 2, steps /= 4) {
    const int quarter = steps % 4;
    if (quarter == 3) row = side - 1 - row, column = side - 1 - column;
    if (quarter == 0 || quarter == 3) std::swap(row, column);
    if (quarter >= 2) row += side;
    if (quarter == 1 || quarter == 2) column += side;
  }
  return {row, column};
}

// Why no rung follows a Hilbert curve: kernels/hgemm/README.md has these numbers. What 66 clusters, all that an H100
// has at once, read: rows of tiles of A and columns of B.
TEST(HgemmTma, GroupsOfEightRowsReadNoMoreThanAHilbertCurve) {
  constexpr int kTiles = 8192 / 256, kClusters = 66;
  const auto tiles_read = [&](auto&& tile_of) {
    size_t read = 0;
    std::set<std::pair<int, int>> all;
    for (int first = 0; first < kTiles * kTiles; first += kClusters) {
      std::set<int> rows, columns;
      for (int i = first; i < std::min(first + kClusters, kTiles * kTiles); ++i) {
        const auto [row, column] = tile_of(i);
        rows.insert(row), columns.insert(column), all.emplace(row, column);
      }
      read += rows.size() + columns.size();
    }
    EXPECT_EQ(all.size(), size_t{kTiles} * kTiles);
    return read;
  };
  for (int i = 1; i < kTiles * kTiles; ++i) {
    const auto [row, column] = on_hilbert_curve(i);
    const auto [row_before, column_before] = on_hilbert_curve(i - 1);
    ASSERT_EQ(std::abs(row - row_before) + std::abs(column - column_before), 1) << i;
  }
  EXPECT_EQ(tiles_read([&](int i) { return k::hgemm_tile(i, kTiles, kTiles); }), 292U);
  EXPECT_EQ(tiles_read(on_hilbert_curve), 313U);
  EXPECT_EQ(tiles_read([&](int i) { return k::HgemmTile{i / kTiles, i % kTiles}; }), 559U);
}

}  // namespace
}  // namespace tenfold::test
