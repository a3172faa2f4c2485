// Layer normalisation forward and backward against float64, for float, half and bfloat16.
#include "kernels/layer_norm/layer_norm.h"

#include <stdexcept>
#include <utility>

#include "kernels/layer_norm/layer_norm_reference.h"
#include "row_kernel.h"

namespace tenfold::test {
namespace {

using kernels::kLayerNormRungs;

constexpr float kEpsilon = 1e-5F;
const std::vector<std::pair<int64_t, int64_t>> kShapes = {{1, 1},   {5, 123}, {3, 1000}, {7, 31},
                                                          {33, 64}, {129, 7}, {2, 1024}, {1, 5003}};

template <class T>
class LayerNorm : public KernelTest {
 protected:
  void expect_forward(const std::vector<float>& values, int64_t rows, int64_t columns, int rung) {
    const Values<T> in(values), weight(normal_values(columns, 60)), bias(normal_values(columns, 61));
    const auto x = this->copied(in.given), w = this->copied(weight.given), b = this->copied(bias.given);
    const auto out = this->template poisoned<T>(rows * columns);
    const auto mean = this->template poisoned<float>(rows), rstd = this->template poisoned<float>(rows);
    kernels::layer_norm(this->stream(), out.data(), mean.data(), rstd.data(), x.data(), w.data(), b.data(), rows,
                        columns, kEpsilon, rung);
    this->expect_clean();
    const auto expected =
        kernels::layer_norm_reference(in.wide, weight.wide, bias.wide, rows, columns, kEpsilon, rounding_of<T>());
    expect_all(mean.host(), expected.mean, "mean " + text_of_case(rows, columns, rung));
    expect_all(rstd.host(), expected.rstd, "rstd " + text_of_case(rows, columns, rung));
    expect_all(out.host(), expected.out, "out " + text_of_case(rows, columns, rung));
  }

  /// The gradients, as bits for comparison, checked against float64; `skip` values lie before each array.
  void expect_backward(int64_t rows, int64_t columns, int rung, int64_t skip = 0) {
    const std::string what = text_of_case(rows, columns, rung) + " skip " + std::to_string(skip);
    const Values<T> in(scaled_values(rows * columns, 62, 2, 1)), g(normal_values(rows * columns, 63)),
        weight(normal_values(columns, 64));
    const auto forward =
        kernels::layer_norm_reference(in.wide, weight.wide, weight.wide, rows, columns, kEpsilon, rounding_of<T>());
    const Values<float> mean({forward.mean.values.begin(), forward.mean.values.end()});
    const Values<float> rstd({forward.rstd.values.begin(), forward.rstd.values.end()});
    const auto shifted = [&](std::vector<T> values) {
      values.insert(values.begin(), static_cast<size_t>(skip), values[0]);
      return this->copied(values);
    };
    const auto x = shifted(in.given), grad_out = shifted(g.given), w = shifted(weight.given);
    const auto mean_in = this->copied(mean.given), rstd_in = this->copied(rstd.given);
    std::vector<std::vector<double>> first;
    for (int repeat = 0; repeat < 2; ++repeat) {
      const auto grad_in = this->template poisoned<T>(rows * columns + skip);
      const auto grad_weight = this->template poisoned<T>(columns), grad_bias = this->template poisoned<T>(columns);
      const auto workspace =
          this->template poisoned<float>(kernels::layer_norm_workspace_bytes(rows, columns) / 4, "workspace");
      kernels::layer_norm_backward(this->stream(), grad_in.data() + skip, grad_weight.data(), grad_bias.data(),
                                   workspace.data(), grad_out.data() + skip, x.data() + skip, mean_in.data(),
                                   rstd_in.data(), w.data() + skip, rows, columns, rung);
      this->expect_clean();
      auto result = grad_in.host();
      result.erase(result.begin(), result.begin() + skip);
      if (repeat == 0) {
        const auto expected = kernels::layer_norm_backward_reference(g.wide, in.wide, mean.wide, rstd.wide, weight.wide,
                                                                     rows, columns, rounding_of<T>());
        expect_all(result, expected.in, "grad_in " + what);
        expect_all(grad_weight.host(), expected.weight, "grad_weight " + what);
        expect_all(grad_bias.host(), expected.bias, "grad_bias " + what);
        first = {widened(result), widened(grad_weight.host()), widened(grad_bias.host())};
      } else {
        EXPECT_EQ(first, (std::vector{widened(result), widened(grad_weight.host()), widened(grad_bias.host())}))
            << "not the same bits";
      }
    }
  }
};
TYPED_TEST_SUITE(LayerNorm, RowTypes);

TYPED_TEST(LayerNorm, EveryRungMatchesFloat64) {
  for (int rung = 0; rung < kLayerNormRungs; ++rung) {
    for (const auto& [rows, columns] : kShapes)
      this->expect_forward(normal_values(rows * columns, 65), rows, columns, rung);
  }
}

TYPED_TEST(LayerNorm, ALargeMeanDoesNotDrownTheVariance) {  // sums of x and x * x would lose three digits here
  for (int rung = 0; rung < kLayerNormRungs; ++rung) {
    this->expect_forward(scaled_values(3 * 1000, 66, 1, 1000), 3, 1000, rung);
    this->expect_forward(scaled_values(3 * 1024, 67, 1, -1000), 3, 1024, rung);
  }
}

TYPED_TEST(LayerNorm, EqualValuesGiveTheBias) {
  for (int rung = 0; rung < kLayerNormRungs; ++rung) {
    this->expect_forward(std::vector<float>(3 * 100, 3), 3, 100, rung);
    this->expect_forward(std::vector<float>(3 * 99, 0), 3, 99, rung);
  }
}

TYPED_TEST(LayerNorm, MeansWhoseSquareIsInfiniteStayNumbers) {
  if (std::is_same_v<TypeParam, __half>) return;  // ends at 65,504
  const int64_t rows = 3, columns = 100;          // fewer values than lanes of the block: some join nothing
  const auto x = this->copied(rounded<TypeParam>(std::vector<float>(rows * columns, 3e19F)));
  const auto ones = this->copied(rounded<TypeParam>(std::vector<float>(columns, 1)));
  for (int rung = 0; rung < kLayerNormRungs; ++rung) {
    const auto out = this->template poisoned<TypeParam>(rows * columns);
    const auto mean = this->template poisoned<float>(rows), rstd = this->template poisoned<float>(rows);
    kernels::layer_norm(this->stream(), out.data(), mean.data(), rstd.data(), x.data(), ones.data(), ones.data(), rows,
                        columns, kEpsilon, rung);
    this->expect_clean();
    for (const float value : mean.host()) EXPECT_NEAR(value, 3e19F, 3e17F) << "rung " << rung;
    for (const float value : rstd.host()) EXPECT_TRUE(std::isfinite(value)) << "rung " << rung;
  }
}

TYPED_TEST(LayerNorm, BackwardMatchesFloat64AndRepeatsItsBits) {
  for (int rung = 0; rung < kernels::kNormBackwardRungs; ++rung) {
    for (const auto& [rows, columns] : kShapes) this->expect_backward(rows, columns, rung);
    for (const auto& [rows, columns, skip] : kNormBackwardShapes) this->expect_backward(rows, columns, rung, skip);
  }
  this->expect_backward(8500, 3, 1);  // as many parts as there can be, and rows left for a second round
}

TEST(LayerNormReference, BackwardIsTheSlopeOfForward) {
  const int64_t rows = 3, columns = 5;
  const auto in = widened(normal_values(rows * columns, 68)), g = widened(normal_values(rows * columns, 69));
  const auto weight = widened(normal_values(columns, 70)), bias = widened(normal_values(columns, 71));
  const auto loss = [&](const std::vector<double>& x, const std::vector<double>& w, const std::vector<double>& b) {
    return dot(g, kernels::layer_norm_reference(x, w, b, rows, columns, kEpsilon, kernels::kFloatRounding).out.values);
  };
  const auto forward =
      kernels::layer_norm_reference(in, weight, bias, rows, columns, kEpsilon, kernels::kFloatRounding);
  const auto gradients = kernels::layer_norm_backward_reference(g, in, forward.mean.values, forward.rstd.values, weight,
                                                                rows, columns, kernels::kFloatRounding);
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_NEAR(gradients.in.values[i],
                slope_of([&](const std::vector<double>& x) { return loss(x, weight, bias); }, in, i), 1e-8);
  }
  for (size_t c = 0; c < weight.size(); ++c) {
    EXPECT_NEAR(gradients.weight.values[c],
                slope_of([&](const std::vector<double>& w) { return loss(in, w, bias); }, weight, c), 1e-8);
    EXPECT_NEAR(gradients.bias.values[c],
                slope_of([&](const std::vector<double>& b) { return loss(in, weight, b); }, bias, c), 1e-8);
  }
}

using LayerNormOfFloat = KernelTest;

TEST_F(LayerNormOfFloat, RefusesWhatCannotBe) {
  const auto x = copied<float>({1}), out = poisoned<float>(4);
  const auto forward = [&](int64_t rows, int64_t columns, int rung) {
    kernels::layer_norm(stream(), out.data(), out.data() + 1, out.data() + 2, x.data(), x.data(), x.data(), rows,
                        columns, kEpsilon, rung);
  };
  expect_refused(forward, kLayerNormRungs);
  EXPECT_THROW(kernels::layer_norm_backward(stream(), out.data(), out.data() + 1, out.data() + 2, out.data() + 3,
                                            x.data(), x.data(), x.data(), x.data(), x.data(), 1, 0),
               std::invalid_argument);
}

#ifdef TENFOLD_COUNTED

TEST_F(LayerNormOfFloat, EachRungAsksForLess) {
  const int64_t rows = 32, columns = 1024, bytes = rows * columns * 4;
  const auto x = copied(normal_values(rows * columns, 72)), w = copied(normal_values(columns, 73), "weight");
  const auto out = poisoned<float>(rows * columns), mean = poisoned<float>(rows, "mean"),
             rstd = poisoned<float>(rows, "rstd");
  const int64_t reads[] = {3 * bytes, 3 * bytes, 2 * bytes, 2 * bytes, bytes};
  const double sectors[] = {32, 4, 4, 16, 16};  // 16 sectors: 32 lanes with 16 bytes each
  const int64_t barriers[] = {0, 20 * rows, 2 * rows, 2 * rows, 4 * rows};
  for (int rung = 0; rung < kLayerNormRungs; ++rung) {
    device_.reset();
    kernels::layer_norm(stream(), out.data(), mean.data(), rstd.data(), x.data(), w.data(), w.data(), rows, columns,
                        kEpsilon, rung);
    const auto report = device_.report();
    EXPECT_EQ(bytes_asked(report, simt::Kind::load, "in"), reads[rung]) << "rung " << rung;
    EXPECT_EQ(bytes_asked(report, simt::Kind::store, "out"), bytes) << "rung " << rung;
    EXPECT_EQ(widest(report, simt::Kind::load, "in").sectors_per_request, sectors[rung]) << "rung " << rung;
    EXPECT_EQ(widest(report, simt::Kind::load, "in").bytes, rung >= 3 ? 16 : 4) << "rung " << rung;
    EXPECT_EQ(report.barriers, barriers[rung]) << "rung " << rung;
    EXPECT_LE(worst_ways(report), 1) << "rung " << rung;
  }
}

TEST_F(LayerNormOfFloat, ShortRowsMeetAtNoBarrier) {
  const int64_t rows = 33, columns = 512;  // a warp's row, and a block that is not full
  const auto x = copied(normal_values(rows * columns, 72)), w = copied(normal_values(columns, 73), "weight");
  const auto out = poisoned<float>(rows * columns), mean = poisoned<float>(rows), rstd = poisoned<float>(rows);
  kernels::layer_norm(stream(), out.data(), mean.data(), rstd.data(), x.data(), w.data(), w.data(), rows, columns,
                      kEpsilon);
  expect_clean();
  EXPECT_EQ(device_.report().barriers, 0);
  EXPECT_EQ(bytes_asked(device_.report(), simt::Kind::load, "in"), rows * columns * 4);
}

TEST_F(LayerNormOfFloat, ColumnSumsHaveNoBankConflict) {
  const int64_t rows = 40, columns = 256;
  const auto check = [&](auto type) {
    using T = decltype(type);
    device_.reset();
    const auto x = copied(rounded<T>(normal_values(rows * columns, 74))), out = poisoned<T>(rows * columns);
    const auto sums = poisoned<T>(2 * columns);
    const auto row = copied(std::vector<float>(rows, 1));
    const auto workspace = poisoned<float>(kernels::layer_norm_workspace_bytes(rows, columns) / 4);
    kernels::layer_norm_backward(stream(), out.data(), sums.data(), sums.data() + columns, workspace.data(), x.data(),
                                 x.data(), row.data(), row.data(), x.data(), rows, columns);
    expect_clean();
    EXPECT_EQ(worst_ways(device_.report()), 1);
  };
  check(float());
  check(__half());
}

#endif

}  // namespace
}  // namespace tenfold::test
