#include <gtest/gtest.h>

#include EXERCISE

#include "common/microscope/device.h"

#include <utility>

#include "tests/support/expect_clean.h"

namespace {

using namespace tenfold;

constexpr std::pair<int, int> kShapes[] = {{1, 1}, {8, 32}, {10, 40}, {7, 33}, {40, 5}, {64, 96}};

/// Adds the bias under the microscope, with the answer's kernel.
simt::Report run(int rows, int columns) {
  simt::Device device;
  const int count = rows * columns;
  const auto in = device.buffer<float>("in", count), out = device.buffer<float>("out", count);
  const auto bias = device.buffer<float>("bias", columns);
  for (int i = 0; i < count; ++i) in[i] = static_cast<float>(i);
  for (int i = 0; i < columns; ++i) bias[i] = static_cast<float>(10000 * i);
  const dim3 grid(static_cast<unsigned>((columns + 31) / 32), static_cast<unsigned>((rows + 7) / 8));
  kernels::launch(&device, grid, dim3(32, 8), 0, add_bias, out.data(), in.data(), bias.data(), rows, columns);
  for (int i = 0; i < count; ++i) {
    const float expected = in[i] + bias[i % columns];
    EXPECT_EQ(out[i], expected) << "hint: row " << i / columns << ", column " << i % columns << " of (" << rows << ", "
                                << columns << ") is wrong (nan: never written); which thread of which block has it?";
    if (out[i] != expected) break;
  }
  return device.report();
}

TEST(Exercise40_3, EveryValueIsRight) {
  for (const auto& [rows, columns] : kShapes) run(rows, columns);
}

TEST(Exercise40_3, NothingRacesOrFaults) {
  for (const auto& [rows, columns] : kShapes) {
    test::expect_clean(run(rows, columns),
                       "two threads have the same value; is a column beyond the edge taken for one of the next row?");
    if (HasFailure()) return;
  }
}

TEST(Exercise40_3, WarpsLieAlongRows) {
  for (const simt::Access& access : run(64, 96).accesses) {
    EXPECT_LE(access.sectors_per_request(), 4)
        << "line " << access.where.line << ", " << simt::name_of(access.kind) << " of " << access.buffer
        << "\nhint: 32 neighbouring floats fill 4 sectors; do neighbouring threads have neighbouring columns?";
  }
}

}  // namespace
