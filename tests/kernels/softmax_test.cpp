// Softmax forward and backward against float64, for float, half and bfloat16.
#include "kernels/softmax/softmax.h"

#include <stdexcept>
#include <utility>

#include "kernels/softmax/softmax_reference.h"
#include "row_kernel.h"

namespace tenfold::test {
namespace {

using kernels::kSoftmaxRungs;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The last three: a row that needs every register of the last rung, and rows too long for them, in packets and not.
const std::vector<std::pair<int64_t, int64_t>> kShapes = {{1, 1},   {5, 123},  {3, 1000}, {7, 31},   {33, 64},
                                                          {129, 7}, {2, 1024}, {1, 8192}, {2, 8208}, {1, 8211}};

template <class T>
class Softmax : public KernelTest {
 protected:
  std::vector<T> forward(const std::vector<T>& in, int64_t rows, int64_t columns, int rung) {
    const auto x = this->copied(in), out = this->template poisoned<T>(rows * columns);
    kernels::softmax(this->stream(), out.data(), x.data(), rows, columns, rung);
    this->expect_clean();
    return out.host();
  }
  void expect_forward(const std::vector<float>& values, int64_t rows, int64_t columns, int rung) {
    const Values<T> in(values);
    expect_all(forward(in.given, rows, columns, rung),
               kernels::softmax_reference(in.wide, rows, columns, rounding_of<T>(), rung),
               text_of_case(rows, columns, rung));
  }
};
TYPED_TEST_SUITE(Softmax, RowTypes);

TYPED_TEST(Softmax, EveryRungMatchesFloat64) {
  for (int rung = 0; rung < kSoftmaxRungs; ++rung) {
    for (const auto& [rows, columns] : kShapes)
      this->expect_forward(normal_values(rows * columns, 42), rows, columns, rung);
  }
}

TYPED_TEST(Softmax, LargeInputsDoNotOverflow) {
  for (int rung = 0; rung < kSoftmaxRungs; ++rung) {
    this->expect_forward(scaled_values(5 * 123, 43, 1e4F), 5, 123, rung);
    this->expect_forward(scaled_values(3 * 256, 44, 1, 1e4F), 3, 256, rung);
    this->expect_forward(scaled_values(3 * 256, 44, 1, -1e4F), 3, 256, rung);
  }
}

TYPED_TEST(Softmax, EqualValuesShareEvenly) {
  for (int rung = 0; rung < kSoftmaxRungs; ++rung) {
    for (const float value : {0.0F, -3.0F, 10000.0F}) {
      const auto result = this->forward(rounded<TypeParam>(std::vector<float>(3 * 64, value)), 3, 64, rung);
      for (const double y : widened(result)) ASSERT_EQ(y, 1.0 / 64) << "rung " << rung << ", value " << value;
    }
  }
}

// Far below the largest value, where a factor of log2(e) that is a little off shows most, and down to results that
// float keeps only as subnormal numbers. Above 2.36e38 the product of a value with log2(e) would be infinite.
TYPED_TEST(Softmax, ValuesFarBelowTheLargest) {
  for (int rung = 0; rung < kSoftmaxRungs; ++rung) {
    for (const int64_t columns : {110, 112}) {  // in packets, and not
      std::vector<float> values;
      for (int64_t i = 0; i < columns; ++i) values.push_back(-static_cast<float>(i));
      this->expect_forward(values, 1, columns, rung);
      if (!std::is_same_v<TypeParam, __half>)
        this->expect_forward(scaled_values(columns, 51, 1e36F, 3e38F), 1, columns, rung);
    }
  }
}

TYPED_TEST(Softmax, MinusInfinityBecomesZero) {
  const int64_t rows = 4, columns = 520;
  auto values = normal_values(rows * columns, 45);
  for (int64_t i = 0; i < rows * columns; ++i) {
    const int64_t row = i / columns, column = i % columns;
    // The beginning, a stripe, all but one; and in the last row nothing.
    const bool masked = row == 0 ? column < 300 : row == 1 ? column % 2 == 0 : row == 2 && column != 77;
    if (masked) values[static_cast<size_t>(i)] = -kInfinity;
  }
  for (int rung = 0; rung < kSoftmaxRungs; ++rung) {
    for (const int64_t last : {columns, columns - 1}) {  // in packets, and not
      std::vector<float> cut;
      for (int64_t row = 0; row < rows; ++row)
        cut.insert(cut.end(), &values[row * columns], &values[row * columns] + last);
      this->expect_forward(cut, rows, last, rung);
      const auto result = widened(this->forward(rounded<TypeParam>(cut), rows, last, rung));
      for (size_t i = 0; i < cut.size(); ++i) {
        if (cut[i] == -kInfinity) {
          ASSERT_EQ(result[i], 0) << "rung " << rung << ", element " << i;
        }
      }
    }
  }
}

TYPED_TEST(Softmax, LongMaskedRows) {  // longer than registers hold: the online part of the last rung
  for (const int64_t columns : {8208, 8211}) {
    auto values = normal_values(columns, 46);
    std::fill(values.begin(), values.begin() + 8000, -kInfinity);
    for (int rung = 2; rung < kSoftmaxRungs; ++rung) this->expect_forward(values, 1, columns, rung);
  }
}

TYPED_TEST(Softmax, NothingButMinusInfinityANanOrInfinityMakesTheRowNan) {
  for (const int64_t columns : {40, 8208}) {
    std::vector<float> values = normal_values(5 * columns, 47);
    std::fill(values.begin(), values.begin() + columns, -kInfinity);
    values[static_cast<size_t>(columns + 3)] = std::numeric_limits<float>::quiet_NaN();
    values[static_cast<size_t>(2 * columns)] = kInfinity;
    // A NaN that comes before anything finite, which a careless rescaling would forget.
    std::fill(values.begin() + 3 * columns, values.begin() + 4 * columns - 12, -kInfinity);
    values[static_cast<size_t>(3 * columns + 5)] = std::numeric_limits<float>::quiet_NaN();
    for (int rung = 0; rung < kSoftmaxRungs; ++rung) {
      const auto result = widened(this->forward(rounded<TypeParam>(values), 5, columns, rung));
      for (int64_t i = 0; i < 4 * columns; ++i)
        ASSERT_TRUE(std::isnan(result[static_cast<size_t>(i)])) << rung << ", " << i;
      for (int64_t i = 4 * columns; i < 5 * columns; ++i)
        ASSERT_GT(result[static_cast<size_t>(i)], 0) << rung << ", " << i;
    }
  }
}

TYPED_TEST(Softmax, ArraysThatBeginBetweenPackets) {
  const int64_t rows = 3, columns = 64, count = rows * columns;
  const Values<TypeParam> in(normal_values(count, 48));
  auto shifted = in.given;
  shifted.insert(shifted.begin(), in.given[0]);
  const auto x = this->copied(shifted);
  for (int rung = 0; rung < kSoftmaxRungs; ++rung) {
    const auto out = this->template poisoned<TypeParam>(count + 1);
    kernels::softmax(this->stream(), out.data() + 1, x.data() + 1, rows, columns, rung);
    this->expect_clean();
    auto result = out.host();
    EXPECT_TRUE(std::isnan(static_cast<float>(result[0])));
    result.erase(result.begin());
    expect_all(result, kernels::softmax_reference(in.wide, rows, columns, rounding_of<TypeParam>(), rung),
               text_of_case(rows, columns, rung));
  }
}

TYPED_TEST(Softmax, BackwardMatchesFloat64) {
  for (const auto& [rows, columns] : kShapes) {
    const Values<TypeParam> g(normal_values(rows * columns, 49)), in(normal_values(rows * columns, 50));
    const auto exact = kernels::softmax_reference(in.wide, rows, columns, rounding_of<TypeParam>()).values;
    const Values<TypeParam> y(std::vector<float>(exact.begin(), exact.end()));
    const auto grad_out = this->copied(g.given), out = this->copied(y.given);
    const auto grad_in = this->template poisoned<TypeParam>(rows * columns);
    kernels::softmax_backward(this->stream(), grad_in.data(), grad_out.data(), out.data(), rows, columns);
    this->expect_clean();
    const auto expected = kernels::softmax_backward_reference(g.wide, y.wide, rows, columns, rounding_of<TypeParam>());
    const auto result = grad_in.host();
    expect_all(result, expected, text_of_case(rows, columns, 0));
    // In the place of what came in.
    kernels::softmax_backward(this->stream(), grad_out.data(), grad_out.data(), out.data(), rows, columns);
    this->expect_clean();
    EXPECT_EQ(widened(grad_out.host()), widened(result)) << "in place " << text_of_case(rows, columns, 0);
  }
}

TEST(SoftmaxReference, BackwardIsTheSlopeOfForward) {
  const int64_t rows = 2, columns = 5;
  const auto in = widened(normal_values(rows * columns, 51)), g = widened(normal_values(rows * columns, 52));
  const auto forward = [&](const std::vector<double>& x) {
    return kernels::softmax_reference(x, rows, columns, kernels::kFloatRounding).values;
  };
  const auto gradient =
      kernels::softmax_backward_reference(g, forward(in), rows, columns, kernels::kFloatRounding).values;
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_NEAR(gradient[i], slope_of([&](const std::vector<double>& x) { return dot(g, forward(x)); }, in, i), 1e-9);
  }
}

using SoftmaxOfFloat = KernelTest;

TEST_F(SoftmaxOfFloat, RefusesWhatCannotBe) {
  const auto x = copied<float>({1}), out = poisoned<float>(1);
  expect_refused([&](int64_t rows, int64_t columns,
                     int rung) { kernels::softmax(stream(), out.data(), x.data(), rows, columns, rung); },
                 kSoftmaxRungs);
  EXPECT_THROW(kernels::softmax_backward(stream(), out.data(), x.data(), x.data(), -1, 1), std::invalid_argument);
}

#ifdef TENFOLD_TEST_ON_GPU

TYPED_TEST(Softmax, MoreElementsThanAnIntCounts) {
  constexpr int64_t kRows = 262'145, kColumns = 8192, kCount = kRows * kColumns;
  static_assert(kCount > int64_t{1} << 31);
  if (!this->has_bytes(2 * kCount * static_cast<int64_t>(sizeof(TypeParam))))
    GTEST_SKIP() << "needs 16 or 32 GiB of free memory";
  const auto in = this->template zeros<TypeParam>(kCount), out = this->template poisoned<TypeParam>(kCount);
  in.put(kCount - 7, TypeParam(1000.0F));  // takes all of the last row
  for (int rung = 0; rung < kSoftmaxRungs; ++rung) {
    DeviceValues<TypeParam>::ok(cudaMemset(out.data(), 0xff, out.bytes()));
    kernels::softmax(this->stream(), out.data(), in.data(), kRows, kColumns, rung);
    this->expect_clean();
    const auto at = [&](int64_t i) { return static_cast<float>(out.get(i)); };
    EXPECT_EQ(at(0), 1.0F / kColumns) << "rung " << rung;
    EXPECT_EQ(at(kCount - kColumns - 1), 1.0F / kColumns) << "rung " << rung;
    EXPECT_EQ(at(kCount - 7), 1.0F) << "rung " << rung;
    EXPECT_EQ(at(kCount - 1), 0.0F) << "rung " << rung;
  }
}

#endif
#ifdef TENFOLD_COUNTED

TEST_F(SoftmaxOfFloat, EachRungReadsLess) {
  const int64_t rows = 32, columns = 1024, bytes = rows * columns * 4;
  const auto x = copied(normal_values(rows * columns, 53)), out = poisoned<float>(rows * columns);
  const int64_t reads[] = {3 * bytes, 3 * bytes, 2 * bytes, 2 * bytes, bytes};
  const double sectors[] = {32, 4, 4, 16, 16};  // 16 sectors: 32 lanes with 16 bytes each
  for (int rung = 0; rung < kSoftmaxRungs; ++rung) {
    device_.reset();
    kernels::softmax(stream(), out.data(), x.data(), rows, columns, rung);
    const auto report = device_.report();
    EXPECT_EQ(bytes_asked(report, simt::Kind::load, "in"), reads[rung]) << "rung " << rung;
    EXPECT_EQ(bytes_asked(report, simt::Kind::store, "out"), bytes) << "rung " << rung;
    EXPECT_EQ(widest(report, simt::Kind::load, "in").sectors_per_request, sectors[rung]) << "rung " << rung;
    EXPECT_EQ(widest(report, simt::Kind::store, "out").sectors_per_request, sectors[rung]) << "rung " << rung;
    EXPECT_EQ(widest(report, simt::Kind::load, "in").bytes, rung >= 3 ? 16 : 4) << "rung " << rung;
    EXPECT_EQ(report.barriers, rung < 3 ? 0 : rung == 3 ? 2 * rows : 4 * rows) << "rung " << rung;
    EXPECT_LE(worst_ways(report), 1) << "rung " << rung;
  }
}

TEST_F(SoftmaxOfFloat, HalvesMoveInPacketsOfEight) {
  const int64_t rows = 4, columns = 512;
  const auto x = copied(rounded<__half>(normal_values(rows * columns, 54))), out = poisoned<__half>(rows * columns);
  kernels::softmax(stream(), out.data(), x.data(), rows, columns);
  const auto report = device_.report();
  EXPECT_EQ(widest(report, simt::Kind::load, "in").bytes, 16);
  EXPECT_EQ(widest(report, simt::Kind::store, "out").bytes, 16);
  EXPECT_EQ(bytes_asked(report, simt::Kind::load, "in"), rows * columns * 2);
}

#endif

}  // namespace
}  // namespace tenfold::test
