// fast_math against float64, within what NVIDIA documents; and the model of its errors. On a GPU the documented bounds
// are put to the test; under the microscope the intrinsics are exact functions, and the test is of everything else.
#include "kernels/fast_math/fast_math.h"

#include <limits>
#include <stdexcept>

#include "kernels/fast_math/fast_math_reference.h"
#include "row_kernel.h"

namespace tenfold::test {
namespace {

using kernels::kFastMathRungs;
using kernels::kMathFunctions;
using kernels::MathFunction;

std::vector<MathFunction> all_functions() {
  std::vector<MathFunction> all;
  for (int i = 0; i < kMathFunctions; ++i) all.push_back(static_cast<MathFunction>(i));
  return all;
}

/// Floats from `from` to `to`, as many at each distance.
std::vector<float> evenly(int64_t count, double from, double to) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(from + (to - from) * static_cast<double>(i) /
                                                   static_cast<double>(std::max<int64_t>(count - 1, 1))));
  }
  return values;
}

class FastMath : public KernelTest {
 protected:
  std::vector<float> run(const std::vector<float>& in, MathFunction function, int repeats, int rung) {
    const auto x = copied(in), out = poisoned<float>(static_cast<int64_t>(in.size()));
    kernels::fast_math(stream(), out.data(), x.data(), static_cast<int64_t>(in.size()), function, repeats, rung);
    expect_clean();
    return out.host();
  }
  void expect_right(const std::vector<float>& in, MathFunction function, int repeats) {
    for (int rung = 0; rung < kFastMathRungs; ++rung) {
      expect_all(run(in, function, repeats, rung), kernels::fast_math_reference(in, function, repeats, rung),
                 "function " + std::to_string(static_cast<int>(function)) + ", n " + std::to_string(in.size()) +
                     ", repeats " + std::to_string(repeats) + ", rung " + std::to_string(rung));
    }
  }
};

TEST_F(FastMath, EveryFunctionIsWithinTheDocumentedError) {
  for (const MathFunction function : all_functions()) {
    for (const int64_t n : {1, 5, 123, 1000, 8192}) {
      const bool root = function == MathFunction::inverse_root;
      expect_right(root ? evenly(n, 1e-3, 9) : evenly(n, -3.125, 3.125), function, 1);
    }
    expect_right(evenly(97, 0.5, 2), function, 3);
    expect_right(evenly(97, 0.5, 2), function, 64);
  }
}

TEST_F(FastMath, LargeArguments) {
  expect_right(evenly(4001, -103, 88.5), MathFunction::exponential, 1);
  expect_right(evenly(4001, -314, 314), MathFunction::sine, 1);
  expect_right(evenly(4001, -1e5, 1e5), MathFunction::sine, 1);
  expect_right(evenly(4001, -110, 110), MathFunction::sigmoid, 1);
  expect_right(evenly(4001, -14, 14), MathFunction::gelu, 1);
  expect_right({0x1p-126F, 0x1p-60F, 1e-20F, 1, 1e20F, std::numeric_limits<float>::max()}, MathFunction::inverse_root,
               1);
}

TEST_F(FastMath, NanStaysNan) {
  for (const MathFunction function : all_functions()) {
    for (int rung = 0; rung < kFastMathRungs; ++rung) {
      EXPECT_TRUE(std::isnan(run({std::numeric_limits<float>::quiet_NaN()}, function, 2, rung)[0]))
          << static_cast<int>(function);
    }
  }
}

TEST_F(FastMath, RefusesWhatCannotBe) {
  const auto x = poisoned<float>(2);
  const auto call = [&](int64_t n, int function, int repeats, int rung) {
    kernels::fast_math(stream(), x.data(), x.data() + 1, n, static_cast<MathFunction>(function), repeats, rung);
  };
  EXPECT_THROW(call(0, 0, 1, 0), std::invalid_argument);
  EXPECT_THROW(call(int64_t{1} << 39, 0, 1, 0), std::invalid_argument);
  EXPECT_THROW(call(1, 0, 0, 0), std::invalid_argument);
  EXPECT_THROW(call(1, kMathFunctions, 1, 0), std::invalid_argument);
  EXPECT_THROW(call(1, 0, 1, -1), std::invalid_argument);
  EXPECT_THROW(call(1, 0, 1, kFastMathRungs), std::invalid_argument);
}

/// The largest error of the modelled rung 1 beside its documented bound, and the largest in ulp, over [from, to].
struct Modelled {
  double of_bound = 0, ulps = 0, absolute = 0;
};
Modelled modelled(MathFunction function, double from, double to) {
  Modelled worst;
  for (const float x : evenly(200'001, from, to)) {
    const double exact = kernels::math_value(function, x),
                 error = std::abs(kernels::modelled_value(function, x) - exact);
    worst.of_bound = std::max(worst.of_bound, error / kernels::documented_error(function, 1, x));
    worst.ulps = std::max(worst.ulps, error / kernels::ulp(exact));
    worst.absolute = std::max(worst.absolute, error);
  }
  return worst;
}

TEST(FastMathError, TheModelKeepsWithinTheDocumentedBounds) {
  EXPECT_LE(modelled(MathFunction::exponential, -87, 88).of_bound, 1);
  EXPECT_LE(modelled(MathFunction::sine, -M_PI, M_PI).of_bound, 1);
  EXPECT_LE(modelled(MathFunction::sine, -2 * M_PI, 2 * M_PI).of_bound, 1);
  EXPECT_LE(modelled(MathFunction::sine, -100 * M_PI, 100 * M_PI).of_bound, 1);
  EXPECT_LE(modelled(MathFunction::sigmoid, -80, 80).of_bound, 1);
  EXPECT_LE(modelled(MathFunction::gelu, -9, 9).of_bound, 1);
  EXPECT_LE(modelled(MathFunction::inverse_root, 1e-6, 100).of_bound, 1);
}

TEST(FastMathError, AndItsErrorGrowsWithTheArgument) {
  EXPECT_LT(modelled(MathFunction::exponential, -1, 1).ulps, 2);
  EXPECT_GT(modelled(MathFunction::exponential, 60, 80).ulps, 30);
  EXPECT_LT(modelled(MathFunction::sine, -1, 1).absolute, 1e-6);
  EXPECT_GT(modelled(MathFunction::sine, 9000, 10000).absolute, 1e-4);
  EXPECT_GT(modelled(MathFunction::sine, 9e6, 1e7).absolute, 0.5) << "nothing is left of the sine";
}

TEST(FastMathError, DocumentedNumbers) {
  using kernels::documented_error;
  EXPECT_EQ(kernels::ulp(1.5), 0x1p-23);
  EXPECT_EQ(kernels::ulp(-0.75), 0x1p-24);
  EXPECT_EQ(kernels::ulp(0), 0x1p-149);
  EXPECT_EQ(documented_error(MathFunction::exponential, 0, 80) / kernels::ulp(std::exp(80.0)), 2.5);
  EXPECT_EQ(documented_error(MathFunction::exponential, 1, 80) / kernels::ulp(std::exp(80.0)), 95.5)
      << "2 + floor(1.173 * 80)";
  EXPECT_EQ(documented_error(MathFunction::sine, 1, 3), std::exp2(-21.41));
  EXPECT_EQ(documented_error(MathFunction::sine, 1, 6), std::exp2(-20.5));
  EXPECT_EQ(documented_error(MathFunction::sine, 1, 314), std::exp2(-14.7));
  EXPECT_TRUE(std::isinf(documented_error(MathFunction::sine, 1, 315)));
  EXPECT_EQ(documented_error(MathFunction::sine, 0, 315), 2.5 * kernels::ulp(std::sin(315.0)));
  // 1 + exp(87.5) is past 2^126, where __fdividef gives 0.
  EXPECT_GE(documented_error(MathFunction::sigmoid, 1, -87.5), kernels::math_value(MathFunction::sigmoid, -87.5));
  EXPECT_LT(documented_error(MathFunction::sigmoid, 0, -87.5),
            1e-6 * kernels::math_value(MathFunction::sigmoid, -87.5));
}

#ifdef TENFOLD_COUNTED

TEST_F(
    FastMath,
    BothRungsMoveTheSameBytes) {  // 1024 floats in and out: 32 requests of 4 sectors each way, however often evaluated
  const auto in = copied(evenly(1024, 1, 2)), out = poisoned<float>(1024);
  for (const MathFunction function : all_functions()) {
    for (int rung = 0; rung < kFastMathRungs; ++rung) {
      device_.reset();
      kernels::fast_math(stream(), out.data(), in.data(), 1024, function, 7, rung);
      const auto report = device_.report();
      EXPECT_TRUE(report.clean());
      ASSERT_EQ(report.accesses.size(), 2u);
      for (const auto& access : report.accesses) {
        EXPECT_EQ(access.requests, 32) << rung;
        EXPECT_EQ(access.sectors, 128) << rung;
      }
    }
  }
}

#endif

}  // namespace
}  // namespace tenfold::test
