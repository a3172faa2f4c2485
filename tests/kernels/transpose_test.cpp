// The transpose ladder: each rung moves every element to its place, for any shape.
#include "kernels/transpose/transpose.h"

#include <stdexcept>
#include <utility>

#include "kernel_device.h"

namespace tenfold::test {
namespace {

using kernels::kTransposeRungs;
using kernels::transpose;

class Transpose : public KernelTest {
 protected:
  /// Transposes normal values that begin `skip` floats after a 256-byte boundary, as the output does; expects each in
  /// its place.
  void expect_transposed(int64_t rows, int64_t columns, int rung, int64_t skip = 0) {
    SCOPED_TRACE("rung " + std::to_string(rung) + ", " + std::to_string(rows) + " x " + std::to_string(columns) +
                 ", skip " + std::to_string(skip));
    const auto values = normal_values(rows * columns + skip, 40);
    const auto in = copied(values);
    const auto out = poisoned<float>(rows * columns + skip);
    transpose(stream(), out.data() + skip, in.data() + skip, rows, columns, rung);
    expect_clean();
    const auto result = out.host();
    int64_t wrong = 0;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        const float expected = values[static_cast<size_t>(skip + row * columns + column)];
        const float found = result[static_cast<size_t>(skip + column * rows + row)];
        if (found == expected) continue;  // never true of NaN
        if (wrong++ == 0) ADD_FAILURE() << "first wrong element: row " << row << ", column " << column << ", " << found;
      }
    }
    EXPECT_EQ(wrong, 0);
    for (int64_t i = 0; i < skip; ++i)
      EXPECT_TRUE(std::isnan(result[static_cast<size_t>(i)])) << "written before the output";
  }
};

TEST_F(Transpose, EveryRungMovesEveryElement) {
  const std::vector<std::pair<int64_t, int64_t>> shapes = {
      {1, 1},   {5, 123},  {3, 1000}, {1, 257},  {257, 1},  {31, 33},  {127, 61}, {32, 32},
      {64, 64}, {64, 192}, {100, 68}, {100, 67}, {67, 100}, {130, 65}, {4, 4},    {96, 128}};
  for (int rung = 0; rung < kTransposeRungs; ++rung) {
    for (const auto& [rows, columns] : shapes) expect_transposed(rows, columns, rung);
  }
}

TEST_F(Transpose, TheDefaultIsTheLastRungAndTakesUnalignedMatrices) {
  for (int64_t skip = 0; skip < 4; ++skip) expect_transposed(68, 100, kTransposeRungs - 1, skip);
  const auto in = copied(std::vector<float>{1, 2, 3, 4, 5, 6});
  const auto out = poisoned<float>(6);
  transpose(stream(), out.data(), in.data(), 2, 3);
  expect_clean();
  EXPECT_EQ(out.host(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

TEST_F(Transpose, RefusesWhatCannotBe) {
  const auto in = copied(std::vector<float>{1});
  const auto out = poisoned<float>(1);
  EXPECT_THROW(transpose(stream(), out.data(), in.data(), 0, 1), std::invalid_argument);
  EXPECT_THROW(transpose(stream(), out.data(), in.data(), 1, -1), std::invalid_argument);
  EXPECT_THROW(transpose(stream(), out.data(), in.data(), 1, 1, -1), std::invalid_argument);
  EXPECT_THROW(transpose(stream(), out.data(), in.data(), 1, 1, kTransposeRungs), std::invalid_argument);
  EXPECT_THROW(transpose(stream(), out.data(), in.data(), int64_t{1} << 31, int64_t{1} << 31), std::invalid_argument);
  EXPECT_TRUE(std::isnan(out.host()[0]));
}

#ifdef TENFOLD_TEST_ON_GPU

TEST_F(Transpose, MoreRowsThanTwoDimensionalGridsHave) {
  for (int rung = 0; rung < kTransposeRungs; ++rung) expect_transposed(4'200'003, 3, rung);
}

TEST_F(Transpose, MoreElementsThanAnIntCounts) {
  constexpr int64_t kRows = 46'344, kColumns = 46'345, kCount = kRows * kColumns;
  static_assert(kCount > int64_t{1} << 31);
  if (!has_bytes(2 * kCount * static_cast<int64_t>(sizeof(float)))) GTEST_SKIP() << "needs 32 GiB of free memory";
  const auto in = zeros<float>(kCount), out = poisoned<float>(kCount);
  const std::pair<int64_t, int64_t> marks[] = {
      {0, 0}, {0, kColumns - 1}, {kRows / 2, kColumns / 3}, {kRows - 1, 0}, {kRows - 1, kColumns - 1}};
  float value = 0;
  for (const auto& [row, column] : marks) in.put(row * kColumns + column, ++value);
  for (int rung = 0; rung < kTransposeRungs; ++rung) {
    DeviceValues<float>::ok(cudaMemset(out.data(), 0xff, out.bytes()));
    transpose(stream(), out.data(), in.data(), kRows, kColumns, rung);
    expect_clean();
    value = 0;
    for (const auto& [row, column] : marks) EXPECT_EQ(out.get(column * kRows + row), ++value) << "rung " << rung;
    EXPECT_EQ(out.get(kCount - 2), 0) << "rung " << rung;
  }
}

#endif
#ifdef TENFOLD_COUNTED

/// What a rung should be seen doing with a matrix that its tiles cover exactly.
struct Counts {
  int bytes;           // per lane in global memory
  double load, store;  // sectors per request
  double read_shared;  // wavefronts per request; 0: shared memory is not used
};

TEST_F(Transpose, TheMicroscopeSeesWhatEachRungIsAbout) {
  using enum simt::Space;
  constexpr int64_t kRows = 96, kColumns = 128, kRequests = kRows * kColumns / 32;
  const Counts expected[kTransposeRungs] = {{4, 4, 32, 0}, {4, 32, 4, 0}, {4, 4, 4, 32}, {4, 4, 4, 1}, {16, 16, 16, 1}};
  for (int rung = 0; rung < kTransposeRungs; ++rung) {
    SCOPED_TRACE("rung " + std::to_string(rung));
    device_.reset();
    expect_transposed(kRows, kColumns, rung);
    const simt::Report report = device_.report();
    const Counts& counts = expected[rung];
    const auto load = total(report, global, simt::Kind::load), save = total(report, global, simt::Kind::store);
    for (const auto& access : {load, save}) {
      EXPECT_EQ(access.bytes, counts.bytes);
      EXPECT_EQ(access.requests, kRequests * 4 / counts.bytes);
      EXPECT_EQ(access.lanes, 32 * access.requests);
    }
    EXPECT_DOUBLE_EQ(load.sectors_per_request(), counts.load);
    EXPECT_DOUBLE_EQ(save.sectors_per_request(), counts.store);
    const auto read = total(report, shared, simt::Kind::load), write = total(report, shared, simt::Kind::store);
    EXPECT_EQ(read.requests, counts.read_shared == 0 ? 0 : kRequests);
    EXPECT_EQ(write.requests, read.requests);
    EXPECT_DOUBLE_EQ(read.wavefronts_per_request(), counts.read_shared);
    EXPECT_EQ(read.worst_ways, static_cast<int>(counts.read_shared));
    EXPECT_DOUBLE_EQ(write.wavefronts_per_request(), counts.read_shared == 0 ? 0 : 1);
    // What DRAM must move at the least is the same for all: the input once and the output once.
    EXPECT_EQ(report.unique_bytes_read, kRows * kColumns * 4);
    EXPECT_EQ(report.unique_bytes_written, kRows * kColumns * 4);
  }
}

TEST_F(Transpose, TheExampleOfSharedMemoryBeginsAtItsFirstByte) {
  expect_transposed(32, 32, 2);
  for (const simt::Access& access : device_.report().accesses) {
    if (access.space != simt::Space::shared) continue;
    // A store walks a row of the tile, a load a column of 32 floats: wherever the library's memory happens to lie.
    const int64_t step = access.kind == simt::Kind::store ? 4 : 32 * 4;
    for (size_t lane = 0; lane < 32; ++lane) EXPECT_EQ(access.example[lane], static_cast<int64_t>(lane) * step);
  }
}

#endif

}  // namespace
}  // namespace tenfold::test
