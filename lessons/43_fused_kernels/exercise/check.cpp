#include <gtest/gtest.h>

#include EXERCISE

#include "common/microscope/device.h"

#include <cmath>
#include <random>
#include <utility>

#include "tests/support/expect_clean.h"

namespace {

using namespace tenfold;

constexpr int64_t kRows = 8;
constexpr std::pair<int64_t, int64_t> kShapes[] = {{1, 1},   {3, 31},   {2, 32},
                                                   {5, 123}, {4, 1000}, {kRows, kMostColumns}};

/// Runs the answer under the microscope on random normal values and looks at every result.
simt::Report run(int64_t rows, int64_t columns) {
  simt::Device device;
  const int64_t count = rows * columns;
  const auto x = device.buffer<float>("x", count), residual = device.buffer<float>("residual", count);
  const auto sum = device.buffer<float>("sum", count), out = device.buffer<float>("out", count);
  const auto weight = device.buffer<float>("weight", columns);
  std::mt19937 bits(43);
  std::normal_distribution<float> normal;
  for (const auto& given : {x, residual, weight}) {
    for (float& value : given) value = normal(bits);
  }
  add_and_normalise(&device, sum.data(), out.data(), x.data(), residual.data(), weight.data(), rows, columns);
  for (int64_t row = 0; row < rows; ++row) {
    double squares = 0;
    for (int64_t i = row * columns; i < (row + 1) * columns; ++i) squares += std::pow(double{x[i]} + residual[i], 2);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(columns) + 1e-6);
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t i = row * columns + c;
      const double added = double{x[i]} + residual[i], expected = added * scale * weight[c];
      const bool right = std::abs(sum[i] - added) <= 1e-6 * (1 + std::abs(added)) &&
                         std::abs(out[i] - expected) <= 1e-5 * (1 + std::abs(expected));
      EXPECT_TRUE(right) << "hint: row " << row << ", column " << c << " of (" << rows << ", " << columns << "): sum "
                         << sum[i] << " and out " << out[i] << " where " << added << " and " << expected
                         << " are right (nan: never written)";
      if (!right) return device.report();
    }
  }
  return device.report();
}

TEST(Exercise43, EveryValueIsRight) {
  for (const auto& [rows, columns] : kShapes) run(rows, columns);
}

TEST(Exercise43, NothingIsReadTwice) {
  const simt::Report report = run(kRows, kMostColumns);
  // Two values in and two out; the weight comes once for each row.
  const double bytes = 32.0 * static_cast<double>(report.sectors()) / static_cast<double>(kRows * kMostColumns);
  EXPECT_LE(bytes, 5 * sizeof(float))
      << "hint: bytes moved per element: which of your loads reads what a register held before?";
  EXPECT_EQ(report.launches, 1) << "hint: registers do not outlive a kernel";
}

TEST(Exercise43, NothingRacesOrFaults) {
  for (const auto& [rows, columns] : kShapes) {
    test::expect_clean(run(rows, columns), "what must every thread wait for before it uses the others' sums?");
    if (HasFailure()) return;
  }
}

}  // namespace
