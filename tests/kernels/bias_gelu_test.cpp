// GELU of a matrix plus a bias, forward and backward, against float64, for float, half and bfloat16.
#include "kernels/bias_gelu/bias_gelu.h"

#include <stdexcept>
#include <utility>

#include "kernels/bias_gelu/bias_gelu_reference.h"
#include "row_kernel.h"

namespace tenfold::test {
namespace {

using kernels::Gelu;
using kernels::kBiasGeluRungs;

const std::vector<std::pair<int64_t, int64_t>> kShapes = {{1, 1},   {5, 123}, {3, 1000}, {7, 31},
                                                          {33, 64}, {129, 7}, {70, 264}, {1, 4099}};

template <class T>
class BiasGelu : public KernelTest {
 protected:
  /// `skip` values lie before each array.
  void expect_forward(const std::vector<float>& values, int64_t columns, Gelu form, int rung, int64_t skip = 0) {
    const auto rows = static_cast<int64_t>(values.size()) / columns;
    const Values<T> in(values), bias(normal_values(columns, 80));
    const auto x = shifted(in.given, skip), b = shifted(bias.given, skip);
    const auto out = this->template poisoned<T>(rows * columns + skip);
    kernels::bias_gelu(this->stream(), out.data() + skip, x.data() + skip, b.data() + skip, rows, columns, form, rung);
    this->expect_clean();
    auto result = out.host();
    result.erase(result.begin(), result.begin() + skip);
    expect_all(result, kernels::bias_gelu_reference(in.wide, bias.wide, form, rounding_of<T>(), /*unfused=*/rung == 0),
               text_of_case(rows, columns, rung) + (form == Gelu::exact ? " exact" : " tanh"));
  }

  void expect_backward(const std::vector<float>& values, int64_t columns, Gelu form, int64_t skip = 0) {
    const auto rows = static_cast<int64_t>(values.size()) / columns;
    const std::string what = text_of_case(rows, columns, 0) + (form == Gelu::exact ? " exact" : " tanh");
    const Values<T> in(values), g(normal_values(rows * columns, 81)), bias(normal_values(columns, 82));
    const auto x = shifted(in.given, skip), grad_out = shifted(g.given, skip), b = shifted(bias.given, skip);
    std::vector<std::vector<double>> first;
    for (int repeat = 0; repeat < 2; ++repeat) {
      const auto grad_in = this->template poisoned<T>(rows * columns + skip),
                 grad_bias = this->template poisoned<T>(columns);
      const auto workspace =
          this->template poisoned<float>(kernels::bias_gelu_workspace_bytes(rows, columns) / 4, "workspace");
      kernels::bias_gelu_backward(this->stream(), grad_in.data() + skip, grad_bias.data(), workspace.data(),
                                  grad_out.data() + skip, x.data() + skip, b.data() + skip, rows, columns, form);
      this->expect_clean();
      auto result = grad_in.host();
      result.erase(result.begin(), result.begin() + skip);
      if (repeat == 0) {
        const auto expected = kernels::bias_gelu_backward_reference(g.wide, in.wide, bias.wide, form, rounding_of<T>());
        expect_all(result, expected.in, "grad_in " + what);
        expect_all(grad_bias.host(), expected.bias, "grad_bias " + what);
        first = {widened(result), widened(grad_bias.host())};
      } else {
        EXPECT_EQ(first, (std::vector{widened(result), widened(grad_bias.host())})) << "not the same bits";
      }
    }
  }

 private:
  DeviceValues<T> shifted(std::vector<T> values, int64_t skip) {
    values.insert(values.begin(), static_cast<size_t>(skip), values[0]);
    return this->copied(values);
  }
};
TYPED_TEST_SUITE(BiasGelu, RowTypes);

TYPED_TEST(BiasGelu, EveryRungMatchesFloat64) {
  for (const Gelu form : {Gelu::exact, Gelu::tanh}) {
    for (int rung = 0; rung < kBiasGeluRungs; ++rung) {
      for (const auto& [rows, columns] : kShapes)
        this->expect_forward(scaled_values(rows * columns, 83, 3), columns, form, rung);
      this->expect_forward(scaled_values(5 * 64, 84, 1e4F), 64, form, rung);
      this->expect_forward(normal_values(5 * 64, 85), 64, form, rung, /*skip=*/1);
    }
  }
}

TYPED_TEST(BiasGelu, BackwardMatchesFloat64AndRepeatsItsBits) {
  for (const Gelu form : {Gelu::exact, Gelu::tanh}) {
    for (const auto& [rows, columns] : kShapes)
      this->expect_backward(scaled_values(rows * columns, 86, 2), columns, form);
    this->expect_backward(normal_values(4200 * 3, 87), 3, form);  // as many parts of the rows as there can be
    this->expect_backward(scaled_values(5 * 64, 88, 1e4F), 64, form);
    this->expect_backward(normal_values(5 * 64, 89), 64, form, /*skip=*/1);
  }
}

using BiasGeluOfFloat = BiasGelu<float>;

TEST_F(BiasGeluOfFloat, HugeValuesHaveASlope) {  // x * x overflows; the slope is 0 or 1 all the same
  for (const Gelu form : {Gelu::exact, Gelu::tanh})
    expect_backward({-1e30F, 1e30F, -3e38F, 3e38F, -20, 20, 0, 1}, 4, form);
}

TEST(BiasGeluReference, BackwardIsTheSlopeOfForward) {
  const auto in = widened(scaled_values(3 * 5, 90, 2)), bias = widened(normal_values(5, 91)),
             g = widened(normal_values(3 * 5, 92));
  for (const Gelu form : {Gelu::exact, Gelu::tanh}) {
    const auto loss = [&](const std::vector<double>& x, const std::vector<double>& b) {
      return dot(g, kernels::bias_gelu_reference(x, b, form, kernels::kFloatRounding, false).values);
    };
    const auto gradients = kernels::bias_gelu_backward_reference(g, in, bias, form, kernels::kFloatRounding);
    for (size_t i = 0; i < in.size(); ++i) {
      EXPECT_NEAR(gradients.in.values[i], slope_of([&](const std::vector<double>& x) { return loss(x, bias); }, in, i),
                  1e-8);
    }
    for (size_t c = 0; c < bias.size(); ++c) {
      EXPECT_NEAR(gradients.bias.values[c],
                  slope_of([&](const std::vector<double>& b) { return loss(in, b); }, bias, c), 1e-8);
    }
  }
  // The two formulas, and both against printed tables: gelu(1) = 0.8413447 and 0.8411920.
  EXPECT_NEAR(kernels::gelu_reference(1, Gelu::exact).value, 0.8413447, 1e-7);
  EXPECT_NEAR(kernels::gelu_reference(1, Gelu::tanh).value, 0.8411920, 1e-7);
}

TEST_F(BiasGeluOfFloat, RefusesWhatCannotBe) {
  const auto x = copied<float>({1}), out = poisoned<float>(3);
  const auto forward = [&](int64_t rows, int64_t columns, int rung) {
    kernels::bias_gelu(stream(), out.data(), x.data(), x.data(), rows, columns, Gelu::exact, rung);
  };
  expect_refused(forward, kBiasGeluRungs);
  EXPECT_THROW(kernels::bias_gelu_backward(stream(), out.data(), out.data() + 1, out.data() + 2, x.data(), x.data(),
                                           x.data(), 1, 0, Gelu::exact),
               std::invalid_argument);
}

#ifdef TENFOLD_COUNTED

TEST_F(BiasGeluOfFloat, FusionHalvesTheTrafficAndPacketsQuarterTheRequests) {
  const int64_t rows = 64, columns = 256, bytes = rows * columns * 4;
  const auto x = copied(normal_values(rows * columns, 93)), b = copied(normal_values(columns, 94), "bias");
  const auto out = poisoned<float>(rows * columns);
  int64_t requests[kBiasGeluRungs] = {};
  for (int rung = 0; rung < kBiasGeluRungs; ++rung) {
    device_.reset();
    kernels::bias_gelu(stream(), out.data(), x.data(), b.data(), rows, columns, Gelu::tanh, rung);
    const auto report = device_.report();
    EXPECT_EQ(bytes_asked(report, simt::Kind::load, "in"), bytes) << "rung " << rung;
    EXPECT_EQ(bytes_asked(report, simt::Kind::load, "out"), rung == 0 ? bytes : 0) << "rung " << rung;
    EXPECT_EQ(bytes_asked(report, simt::Kind::store, "out"), rung == 0 ? 2 * bytes : bytes) << "rung " << rung;
    EXPECT_EQ(widest(report, simt::Kind::store, "out").sectors_per_request, rung >= 2 ? 16 : 4) << "rung " << rung;
    for (const auto& access : report.accesses) requests[rung] += access.buffer == "bias" ? 0 : access.requests;
  }
  EXPECT_EQ(requests[0], 2 * requests[1]);
  EXPECT_EQ(requests[1], 4 * requests[2]);
  EXPECT_EQ(requests[2], requests[3]);
}

TEST_F(BiasGeluOfFloat, ColumnSumsHaveNoBankConflict) {
  const auto check = [&](auto type) {
    using T = decltype(type);
    device_.reset();
    const auto x = copied(rounded<T>(normal_values(40 * 256, 95))), out = poisoned<T>(40 * 256),
               sums = poisoned<T>(256);
    const auto workspace = poisoned<float>(kernels::bias_gelu_workspace_bytes(40, 256) / 4);
    kernels::bias_gelu_backward(stream(), out.data(), sums.data(), workspace.data(), x.data(), x.data(), x.data(), 40,
                                256, Gelu::exact);
    expect_clean();
    EXPECT_EQ(worst_ways(device_.report()), 1);
  };
  check(float());
  check(__half());
}

#endif

}  // namespace
}  // namespace tenfold::test
