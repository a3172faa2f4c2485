// Root-mean-square normalisation forward and backward against float64, for float, half and bfloat16.
#include "kernels/rms_norm/rms_norm.h"

#include <stdexcept>
#include <utility>

#include "kernels/rms_norm/rms_norm_reference.h"
#include "row_kernel.h"

namespace tenfold::test {
namespace {

using kernels::kRmsNormRungs;

constexpr float kEpsilon = 1e-5F;
const std::vector<std::pair<int64_t, int64_t>> kShapes = {{1, 1},   {5, 123}, {3, 1000}, {7, 31},
                                                          {33, 64}, {129, 7}, {2, 1024}, {1, 5003}};

template <class T>
class RmsNorm : public KernelTest {
 protected:
  void expect_forward(const std::vector<float>& values, int64_t rows, int64_t columns, int rung) {
    const Values<T> in(values), weight(normal_values(columns, 160));
    const auto x = this->copied(in.given), w = this->copied(weight.given);
    const auto out = this->template poisoned<T>(rows * columns);
    const auto rstd = this->template poisoned<float>(rows);
    kernels::rms_norm(this->stream(), out.data(), rstd.data(), x.data(), w.data(), rows, columns, kEpsilon, rung);
    this->expect_clean();
    const auto expected = kernels::rms_norm_reference(in.wide, weight.wide, rows, columns, kEpsilon, rounding_of<T>());
    expect_all(rstd.host(), expected.rstd, "rstd " + text_of_case(rows, columns, rung));
    expect_all(out.host(), expected.out, "out " + text_of_case(rows, columns, rung));
  }

  /// The gradients, twice, checked against float64 and against each other; `skip` values lie before each array.
  void expect_backward(int64_t rows, int64_t columns, int rung, int64_t skip = 0) {
    const std::string what = text_of_case(rows, columns, rung) + " skip " + std::to_string(skip);
    const Values<T> in(scaled_values(rows * columns, 162, 2, 1)), g(normal_values(rows * columns, 163)),
        weight(normal_values(columns, 164));
    const auto forward = kernels::rms_norm_reference(in.wide, weight.wide, rows, columns, kEpsilon, rounding_of<T>());
    const Values<float> rstd({forward.rstd.values.begin(), forward.rstd.values.end()});
    const auto shifted = [&](std::vector<T> values) {
      values.insert(values.begin(), static_cast<size_t>(skip), values[0]);
      return this->copied(values);
    };
    const auto x = shifted(in.given), grad_out = shifted(g.given), w = shifted(weight.given);
    const auto rstd_in = this->copied(rstd.given);
    std::vector<std::vector<double>> first;
    for (int repeat = 0; repeat < 2; ++repeat) {
      const auto grad_in = this->template poisoned<T>(rows * columns + skip);
      const auto grad_weight = this->template poisoned<T>(columns);
      const auto workspace =
          this->template poisoned<float>(kernels::rms_norm_workspace_bytes(rows, columns) / 4, "workspace");
      kernels::rms_norm_backward(this->stream(), grad_in.data() + skip, grad_weight.data(), workspace.data(),
                                 grad_out.data() + skip, x.data() + skip, rstd_in.data(), w.data() + skip, rows,
                                 columns, rung);
      this->expect_clean();
      auto result = grad_in.host();
      result.erase(result.begin(), result.begin() + skip);
      if (repeat == 0) {
        const auto expected = kernels::rms_norm_backward_reference(g.wide, in.wide, rstd.wide, weight.wide, rows,
                                                                   columns, rounding_of<T>());
        expect_all(result, expected.in, "grad_in " + what);
        expect_all(grad_weight.host(), expected.weight, "grad_weight " + what);
        first = {widened(result), widened(grad_weight.host())};
      } else {
        EXPECT_EQ(first, (std::vector{widened(result), widened(grad_weight.host())})) << "not the same bits";
      }
    }
  }
};
TYPED_TEST_SUITE(RmsNorm, RowTypes);

TYPED_TEST(RmsNorm, EveryRungMatchesFloat64) {
  for (int rung = 0; rung < kRmsNormRungs; ++rung) {
    for (const auto& [rows, columns] : kShapes)
      this->expect_forward(normal_values(rows * columns, 165), rows, columns, rung);
  }
}

TYPED_TEST(RmsNorm, TheMeanCountsAndZerosStayZero) {  // unlike layer normalisation, which would give 0 for equal values
  for (int rung = 0; rung < kRmsNormRungs; ++rung) {
    this->expect_forward(scaled_values(3 * 1000, 166, 1, 100), 3, 1000, rung);
    this->expect_forward(std::vector<float>(3 * 100, 3), 3, 100, rung);
    this->expect_forward(std::vector<float>(3 * 99, 0), 3, 99, rung);
  }
}

TYPED_TEST(RmsNorm, BackwardMatchesFloat64AndRepeatsItsBits) {
  for (int rung = 0; rung < kernels::kNormBackwardRungs; ++rung) {
    for (const auto& [rows, columns] : kShapes) this->expect_backward(rows, columns, rung);
    for (const auto& [rows, columns, skip] : kNormBackwardShapes) this->expect_backward(rows, columns, rung, skip);
  }
  this->expect_backward(8500, 3, 1);  // as many parts as there can be, and rows left for a second round
}

TEST(RmsNormReference, BackwardIsTheSlopeOfForward) {
  const int64_t rows = 3, columns = 5;
  const auto in = widened(normal_values(rows * columns, 168)), g = widened(normal_values(rows * columns, 169));
  const auto weight = widened(normal_values(columns, 170));
  const auto loss = [&](const std::vector<double>& x, const std::vector<double>& w) {
    return dot(g, kernels::rms_norm_reference(x, w, rows, columns, kEpsilon, kernels::kFloatRounding).out.values);
  };
  const auto forward = kernels::rms_norm_reference(in, weight, rows, columns, kEpsilon, kernels::kFloatRounding);
  const auto gradients =
      kernels::rms_norm_backward_reference(g, in, forward.rstd.values, weight, rows, columns, kernels::kFloatRounding);
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_NEAR(gradients.in.values[i], slope_of([&](const std::vector<double>& x) { return loss(x, weight); }, in, i),
                1e-8);
  }
  for (size_t c = 0; c < weight.size(); ++c) {
    EXPECT_NEAR(gradients.weight.values[c],
                slope_of([&](const std::vector<double>& w) { return loss(in, w); }, weight, c), 1e-8);
  }
}

using RmsNormOfFloat = KernelTest;

TEST_F(RmsNormOfFloat, KnownValuesAndAnOverflow) {  // (3, 4): mean square 12.5; squares of 1e25 are infinite
  for (int rung = 0; rung < kRmsNormRungs; ++rung) {
    const auto x = copied<float>({3, 4, 1e25F, 1e25F}), w = copied<float>({1, 2});
    const auto out = poisoned<float>(4), rstd = poisoned<float>(2);
    kernels::rms_norm(stream(), out.data(), rstd.data(), x.data(), w.data(), 2, 2, 0.0F, rung);
    expect_clean();
    EXPECT_NEAR(rstd.host()[0], 0.28284271, 1e-7) << "rung " << rung;
    EXPECT_NEAR(out.host()[0], 0.84852814, 1e-6) << "rung " << rung;
    EXPECT_NEAR(out.host()[1], 2.26274170, 1e-6) << "rung " << rung;
    EXPECT_EQ(rstd.host()[1], 0) << "rung " << rung;
    EXPECT_EQ(out.host()[2], 0) << "rung " << rung;
  }
}

TEST_F(RmsNormOfFloat, RefusesWhatCannotBe) {
  const auto x = copied<float>({1}), out = poisoned<float>(3);
  const auto forward = [&](int64_t rows, int64_t columns, int rung) {
    kernels::rms_norm(stream(), out.data(), out.data() + 1, x.data(), x.data(), rows, columns, kEpsilon, rung);
  };
  expect_refused(forward, kRmsNormRungs);
  EXPECT_THROW(kernels::rms_norm_backward(stream(), out.data(), out.data() + 1, out.data() + 2, x.data(), x.data(),
                                          x.data(), x.data(), 1, 0),
               std::invalid_argument);
}

#ifdef TENFOLD_COUNTED

TEST_F(RmsNormOfFloat, EachRungAsksForLess) {
  const int64_t rows = 32, columns = 1024, bytes = rows * columns * 4;
  const auto x = copied(normal_values(rows * columns, 172)), w = copied(normal_values(columns, 173), "weight");
  const auto out = poisoned<float>(rows * columns), rstd = poisoned<float>(rows, "rstd");
  const double sectors[] = {32, 4, 16};  // 16 sectors: 32 lanes with 16 bytes each
  const int64_t requests[] = {2 * columns, 2 * rows * columns / 32, 2 * rows * columns / 128},
                barriers[] = {0, 0, 2 * rows};
  for (int rung = 0; rung < kRmsNormRungs; ++rung) {
    device_.reset();
    kernels::rms_norm(stream(), out.data(), rstd.data(), x.data(), w.data(), rows, columns, kEpsilon, rung);
    const auto report = device_.report();
    int64_t loads = 0;
    for (const auto& access : report.accesses) loads += access.buffer == "in" ? access.requests : 0;
    EXPECT_EQ(loads, requests[rung]) << "rung " << rung;
    EXPECT_EQ(bytes_asked(report, simt::Kind::load, "in"), 2 * bytes) << "rung " << rung;
    EXPECT_EQ(bytes_asked(report, simt::Kind::store, "out"), bytes) << "rung " << rung;
    EXPECT_EQ(widest(report, simt::Kind::load, "in").sectors_per_request, sectors[rung]) << "rung " << rung;
    EXPECT_EQ(widest(report, simt::Kind::load, "in").bytes, rung == 2 ? 16 : 4) << "rung " << rung;
    EXPECT_EQ(report.barriers, barriers[rung]) << "rung " << rung;
    EXPECT_LE(worst_ways(report), 1) << "rung " << rung;
  }
}

#endif

}  // namespace
}  // namespace tenfold::test
