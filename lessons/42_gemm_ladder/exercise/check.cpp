#include <gtest/gtest.h>

#include EXERCISE

#include "common/microscope/device.h"

#include <array>
#include <cmath>
#include <random>
#include <string>

#include "tests/support/expect_clean.h"

namespace {

using namespace tenfold;

struct Shape {
  int m, n, k;
};
constexpr int kSize = 64;
constexpr auto kShapes =
    std::to_array<Shape>({{1, 1, 1}, {5, 33, 7}, {33, 65, 100}, {64, 32, 96}, {kSize, kSize, kSize}});

struct Ran {
  simt::Report report;
  std::string wrong;  ///< the first element that is not float64's; empty when all are
};

/// Runs the answer's kernel under the microscope and compares.
Ran layer(const Shape& shape) {
  const auto& [m, n, k] = shape;
  simt::Device device;
  const auto x = device.buffer<float>("x", int64_t{m} * k), w = device.buffer<float>("w", int64_t{n} * k);
  const auto y = device.buffer<float>("y", int64_t{m} * n);
  std::mt19937 bits(42);
  std::normal_distribution<float> normal;
  for (float& value : x) value = normal(bits);
  for (float& value : w) value = normal(bits);
  const auto tiles = [](int size) { return static_cast<unsigned>((size + kTile - 1) / kTile); };
  kernels::launch(&device, dim3(tiles(n), tiles(m)), dim3(kThreadsX, kThreadsY), 0, linear, y.data(), x.data(),
                  w.data(), m, n, k);
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      double sum = 0, size = 0;
      for (int64_t i = 0; i < k; ++i) {
        const double product = static_cast<double>(x[row * k + i]) * static_cast<double>(w[column * k + i]);
        sum += product;
        size += std::abs(product);
      }
      const double found = y[row * n + column];
      if (std::abs(found - sum) <= k * 0x1p-24 * size) continue;  // never true of NaN
      return {device.report(), "row " + std::to_string(row) + ", column " + std::to_string(column) + " is " +
                                   std::to_string(found) + ", not " + std::to_string(sum)};
    }
  }
  return {device.report(), ""};
}

TEST(Exercise42, EveryElementIsRight) {
  for (const Shape& shape : kShapes) {
    ASSERT_EQ(layer(shape).wrong, "")
        << shape.m << " x " << shape.n << " x " << shape.k
        << "\nhint: what is in a tile beyond the edge of x or w, and is it whole when it is read?";
  }
}

TEST(Exercise42, AQuarterOfAByteForEachMultiplyAdd) {
  double loaded = 0;
  for (const simt::Access& access : layer({kSize, kSize, kSize}).report.accesses) {
    if (access.space == simt::Space::global && access.kind == simt::Kind::load)
      loaded += static_cast<double>(access.bytes_moved());
  }
  EXPECT_LE(loaded / (kSize * kSize * kSize), 0.25)
      << "bytes from global memory\nhint: a tile of 32 uses each value 32 times, "
         "if its lanes read neighbours";
}

TEST(Exercise42, NoBankConflict) {
  for (const simt::Access& access : layer({kSize, kSize, kSize}).report.accesses) {
    if (access.space != simt::Space::shared) continue;
    EXPECT_EQ(access.wavefronts, access.ideal_wavefronts)
        << "line " << access.where.line << "\nhint: up to " << access.worst_ways
        << " lanes want different words of the same bank";
  }
}

TEST(Exercise42, NothingRacesOrFaults) {
  for (const Shape& shape : kShapes) {
    test::expect_clean(layer(shape).report,
                       "a tile is written, then read, then written again; who must wait, and when?");
    if (HasFailure()) return;
  }
}

}  // namespace
