// Codes and scales, both products against 32 bits, packed bytes against malloc, and what the lesson puts in place.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "common/measure/memory.h"
#include "common/models/gpt.h"
#include "dynamic_int8_linear.h"
#include "eight_bit_rows.h"
#include "forms.h"
#include "inference.h"
#include "lessons/21_mixed_precision/autocast.h"
#include "prediction.h"
#include "surveys.h"
#include "tests/support/support.h"

namespace {

using namespace tenfold;
using torch::Tensor;

Tensor in_32_bits(const EightBitRows& rows) { return rows.codes.to(torch::kFloat) * rows.scales.unsqueeze(1); }

double relative_error(const Tensor& found, const Tensor& exact) {
  return ((found - exact).norm() / exact.norm()).item<double>();
}

/// Rows of magnitudes from 1e-6 to 1e3.
Tensor some_weight(int64_t outputs = 8, int64_t inputs = 300) {
  torch::manual_seed(35);
  return torch::randn({outputs, inputs}) * torch::logspace(-6, 3, outputs).unsqueeze(1);
}

TEST(Int8Rows, EveryWeightIsRightWithinHalfAStep) {
  const Tensor weight = some_weight();
  const EightBitRows rows = int8_rows(weight);
  // Half a step; the largest of a row, at 127.5 steps, becomes 127 where 128 would be nearer; rounding in 32 bits.
  const Tensor steps = (in_32_bits(rows) - weight).abs() / rows.scales.unsqueeze(1);
  EXPECT_LE(steps.max().item<double>(), 0.5001);
  EXPECT_EQ(rows.codes.scalar_type(), torch::kChar);
}

TEST(Int8Rows, ZeroIsZeroAndARowOfZerosStaysSo) {
  Tensor weight = some_weight();
  weight.select(0, 3).zero_();
  weight.select(1, 5).zero_();
  const Tensor stored = in_32_bits(int8_rows(weight));
  EXPECT_TRUE(stored.select(0, 3).eq(0).all().item<bool>());
  EXPECT_TRUE(stored.select(1, 5).eq(0).all().item<bool>());
}

TEST(Int8Rows, SignsAreKeptWhichWithoutAClampTheyAreNot) {
  const Tensor weight = some_weight(64);
  const auto wrong_signs = [&](const EightBitRows& rows) {
    return (rows.codes.to(torch::kFloat) * weight < 0).sum().item<int64_t>();
  };
  EXPECT_EQ(wrong_signs(int8_rows(weight)), 0);
  EXPECT_GT(wrong_signs(wrapped_rows(weight)), 0) << "128 in int8 is -128";
}

TEST(Fp8Rows, EveryWeightIsRightToAThirtySecondOfItself) {
  const Tensor weight = some_weight();
  const EightBitRows rows = fp8_rows(weight);
  const Tensor values = weight / rows.scales.unsqueeze(1);
  // 3 bits of mantissa: half of an eighth at most. Below 2^-6 steps are equal, 2^-9.
  const Tensor allowed = (values.abs() / 16).clamp_min(std::exp2(-10)) * 1.001;
  EXPECT_TRUE(((rows.codes.to(torch::kFloat) - values).abs() <= allowed).all().item<bool>());
  EXPECT_TRUE(rows.codes.to(torch::kFloat).isfinite().all().item<bool>());
}

TEST(WeightOnlyLinear, IsTheProductWithTheStoredWeightWhateverRowsAtATime) {
  const Tensor x = torch::randn({2, 5, 300}), bias = torch::randn({70});
  for (const auto quantize : {int8_rows, fp8_rows}) {
    const EightBitRows rows = quantize(torch::randn({70, 300}));
    const Tensor exact = torch::nn::functional::linear(x, in_32_bits(rows), bias);
    for (const int64_t at_a_time : {1, 33, 70, 1000}) {
      // The same sums; the scale is applied behind them and not before.
      EXPECT_LE(relative_error(weight_only_linear(x, rows, bias, at_a_time), exact), 1e-5) << at_a_time;
    }
    EXPECT_LE(relative_error(weight_only_linear(x, rows, {}) + bias, exact), 1e-5) << "a layer without a bias";
  }
}

TEST(WeightOnlyLinear, TakesSixteenBits) {
  const Tensor x = torch::randn({5, 300}), bias = torch::randn({70});
  for (const auto quantize : {int8_rows, fp8_rows}) {
    const EightBitRows rows = quantize(torch::randn({70, 300}));
    const Tensor exact = weight_only_linear(x, rows, bias);
    for (const at::ScalarType type : {torch::kBFloat16, torch::kHalf}) {
      const Tensor y = weight_only_linear(x.to(type), rows, bias);
      EXPECT_EQ(y.scalar_type(), type);
      EXPECT_LE(relative_error(y.to(torch::kFloat), exact), 1e-2);  // x and y are rounded to 8 bits or more
      const Autocast scope(torch::kCPU, type);
      EXPECT_TRUE(weight_only_linear(x, rows, bias).equal(y)) << "as of a linear layer under autocast";
    }
  }
}

TEST(WeightOnlyLinear, SumsOfCodesDoNotOverflowInFp16) {
  const Tensor x = torch::full({1, 300}, 30, torch::kHalf);
  for (const auto quantize : {int8_rows, fp8_rows}) {
    const EightBitRows rows = quantize(torch::full({2, 300}, 0.01));  // a sum is 90, of codes above 10^6
    EXPECT_NEAR(weight_only_linear(x, rows, {}).max().item<double>(), 90, 1);
  }
}

TEST(OneKernelLinear, IsTheProductWithTheStoredWeight) {
  const torch::NoGradGuard no_graph;
  const Tensor x = torch::randn({2, 5, 304}), bias = torch::randn({70});
  const EightBitRows rows = int8_rows(torch::randn({70, 304}));
  const Tensor exact = torch::nn::functional::linear(x, in_32_bits(rows), bias);
  // x, the scale and the sum are each rounded to 8 bits: at most 1/256 of a row's sum, once for each.
  EXPECT_LE(relative_error(one_kernel_linear(x, rows, bias), exact), 3.0 / 256);
  EXPECT_LE(relative_error(one_kernel_linear(x, rows, {}) + bias, exact), 3.0 / 256) << "a layer without a bias";
  const Tensor turned = x.transpose(0, 1);
  EXPECT_LE(relative_error(one_kernel_linear(turned, rows, bias), exact.transpose(0, 1)), 3.0 / 256);
  EXPECT_EQ(one_kernel_linear(x.to(torch::kHalf), rows, bias.to(torch::kHalf)).scalar_type(), torch::kHalf);
}

TEST(OneKernelLinear, RefusesWhatTheKernelReadsWrong) {
  const auto message_of = [](const Tensor& x, const EightBitRows& rows) {
    return test::message_of<c10::Error>([&] { one_kernel_linear(x, rows, {}); });
  };
  const Tensor weight = torch::randn({70, 304}), narrow = torch::randn({70, 300});
  EXPECT_NE(message_of(torch::randn({1, 304}), fp8_rows(weight)).find("takes codes of int8, not Float8_e4m3fn"),
            std::string::npos);
  EXPECT_NE(message_of(torch::randn({1, 300}), int8_rows(narrow)).find("inputs that 16 divides, not 300"),
            std::string::npos);
}

class DynamicInt8 : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_int8_products()) GTEST_SKIP() << "needs FBGEMM: a CPU of x86 with AVX2";
  }
};

TEST_F(DynamicInt8, IsRightWithinItsSteps) {
  torch::manual_seed(35);
  const torch::NoGradGuard no_graph;
  const Tensor weight = torch::randn({48, 300}), bias = torch::randn({48}), x = torch::randn({4, 7, 300});
  const DynamicInt8Linear fast(weight, bias);
  // Steps of about 7 standard deviations / 127 in the activations and of 3 / 127.5 in the weights: uniform errors of
  // 1.6 % and 0.7 % of a typical value. Twice their sum.
  EXPECT_LE(relative_error(fast.forward(x), torch::nn::functional::linear(x, weight, bias)), 0.045);
  EXPECT_EQ(fast.forward(x).sizes().vec(), (std::vector<int64_t>{4, 7, 48}));
  const DynamicInt8Linear without(weight, {});
  EXPECT_LE(relative_error(without.forward(x) + bias, fast.forward(x)), 1e-5);
}

TEST_F(DynamicInt8, SevenBitsOfActivationsNeverSaturate) {
  torch::manual_seed(35);
  EXPECT_LE(saturation_error(/*reduce_range=*/true), 0.02) << "half a step of 127, in weights and activations";
#if defined(__x86_64__)
  // With VNNI four products are added in 32 bits at once. Without it all of these sums saturate.
  if (!__builtin_cpu_supports("avx512vnni")) {
    EXPECT_GT(saturation_error(/*reduce_range=*/false), 0.1);
  }
#endif
}

TEST_F(DynamicInt8, TheEngineOfTheProcessIsAsBefore) {
  const at::QEngine before = at::globalContext().qEngine();
  pack_int8(int8_rows(torch::ones({8, 8})), {});
  EXPECT_EQ(at::globalContext().qEngine(), before);
}

TEST_F(DynamicInt8, PackedWeightsAreWhereOnlyMallocCounts) {
  if (malloc_bytes() == 0) GTEST_SKIP() << "another allocator stands in malloc's place";
  const torch::NoGradGuard no_graph;
  for (const auto& [outputs, inputs] : {std::pair<int64_t, int64_t>{640, 1000}, {2048, 512}, {600, 100}, {10, 6272}}) {
    const EightBitRows rows = int8_rows(torch::randn({outputs, inputs}));
    pack_int8(rows, {});  // what a first call keeps for good is there from now on
    const CountCpuMemory counting;
    const int64_t live = live_bytes(torch::kCPU), all = malloc_bytes();
    const auto packed = pack_int8(rows, {});
    EXPECT_EQ(live_bytes(torch::kCPU), live) << "PyTorch counts none of it";
    const int64_t by_formula = packed_bytes(outputs, inputs), by_malloc = malloc_bytes() - all;
    // Small blocks that malloc keeps at hand after they were freed count as handed out: some kilobytes for each size.
    EXPECT_GE(by_malloc, outputs * inputs - 16384) << outputs << " x " << inputs;
#if defined(__x86_64__)
    // The blocks of CPUs with AVX-512 come from FBGEMM's source, which has more than one kind for them.
    if (__builtin_cpu_supports("avx512f")) continue;
#endif
    EXPECT_GE(by_malloc, by_formula - 16384) << outputs << " x " << inputs;
    EXPECT_LE(by_malloc, by_formula + 49152) << outputs << " x " << inputs;
  }
}

TEST(PackedBytes, BlocksAreFilledUp) {
  // A narrow layer's packed weight is twice as large as its weight in 32 bits, a wide one's is a quarter.
  EXPECT_EQ(packed_bytes(64, 64, {512, 8}), 512 * 64 + 12 * 64);
  EXPECT_EQ(packed_bytes(10, 1568, {512, 8}), 2048 * 16 + 12 * 10);
  EXPECT_EQ(packed_bytes(2048, 512, {512, 8}), 2048 * 512 + 12 * 2048);
  EXPECT_EQ(packed_bytes(50, 100, {512, 48}), 512 * 96 + 12 * 50);
  EXPECT_EQ(packed_bytes(33, 257, {256, 32}), 512 * 64 + 12 * 33);
}

Trial small_trial(const Workload& workload = gpt_workload) {
  auto record = std::make_shared<TrialRecord>();
  record->given = {{"layers", int64_t{2}}, {"width", int64_t{32}}, {"heads", int64_t{2}},
                   {"length", int64_t{8}}, {"batch", int64_t{3}},  {"channels", int64_t{4}}};
  Trial trial(record);
  trial.workload = workload;
  trial.seed = 35;
  return trial;
}

Model seeded_model(const Trial& trial) {
  torch::manual_seed(35);
  return make_model(trial);
}

TEST(OtherLinears, EveryLayerIsReplacedAndComesBack) {
  const torch::NoGradGuard no_graph;
  for (const Workload& workload : {gpt_workload, convnet_workload}) {
    const Trial trial = small_trial(workload);
    const Model model = seeded_model(trial);
    EXPECT_EQ(model.linears.size(), workload == gpt_workload ? 9U : 1U) << "four of each block, and the head";
    const Tensor inputs = model.next_batch().first;
    const Tensor before = model.logits(inputs);
    int calls = 0;
    model.forms->replace(model.linears, [&](const torch::nn::LinearImpl& layer) {
      return LinearForm{[&calls, &layer](const Tensor& x) {
        ++calls;
        return torch::nn::functional::linear(x, layer.weight, layer.bias);
      }};
    });
    EXPECT_LE(relative_error(model.logits(inputs), before), 1e-6);
    EXPECT_EQ(calls, static_cast<int>(model.linears.size()));
    model.forms->clear();
    EXPECT_TRUE(model.logits(inputs).equal(before));
  }
}

TEST(OtherLinears, QuantizedModelsGiveNearlyTheSameOutputs) {
  const torch::NoGradGuard no_graph;
  const Trial trial = small_trial();
  const Model model = seeded_model(trial);
  const Tensor inputs = model.next_batch().first;
  const Tensor exact = model.logits(inputs);
  const auto error_of = [&](const MakeForm& make) {
    model.forms->replace(model.linears, make);
    const double error = relative_error(model.logits(inputs), exact);
    model.forms->clear();
    return error;
  };
  // What the lesson's agreement allows.
  EXPECT_LE(error_of(int8_weights(trial)), 0.05);
  EXPECT_LE(error_of(int8_one_kernel(trial)), 0.05);
  EXPECT_LE(error_of(fp8_weights(trial)), 0.05);
  EXPECT_GT(error_of(no_clamp(trial)), 0.1) << "a wrong sign of the largest weights must not pass";
  if (has_int8_products()) {
    EXPECT_LE(error_of(dynamic_int8(trial)), 0.05);
  }
}

TEST(Inference, ReleasedWeightsTakeNoMemory) {
  const Trial trial = small_trial();
  make_model(trial);  // the text
  const CountCpuMemory counting;
  const int64_t before = live_bytes(torch::kCPU);
  Model model = seeded_model(trial);
  const int64_t in_32 = live_bytes(torch::kCPU) - before;
  model.forms->replace(model.linears, int8_weights(trial));
  OtherLinears::release(model.linears);
  const std::vector<LinearShape> linears = gpt_linears(2, 32, 128);
  const int64_t saved = in_32 - (live_bytes(torch::kCPU) - before);
  // A block of memory may be up to 15 bytes larger than was asked for; three for each layer.
  EXPECT_NEAR(static_cast<double>(saved), static_cast<double>(bytes_in_32_bits(linears) - bytes_in_8_bits(linears)),
              static_cast<double>(linears.size()) * 3 * 15);
}

TEST(OutputLog, ASkippedStepShows) {
  const auto log_of = [](const std::vector<double>& values, bool skip_first) {
    OutputLog log(torch::kCPU, 2, 3);
    const Parameters kept = log.parameters();
    for (size_t i = 0; i < values.size(); ++i) {
      const Tensor outputs = kept["outputs"].clone(), steps = kept["steps"].clone();
      log.add(torch::full({2, 3}, values[i]));
      if (i > 0 || !skip_first) continue;
      kept["outputs"].copy_(outputs);
      kept["steps"].copy_(steps);
    }
    return kept["outputs"].clone();
  };
  // Even if all outputs are the same.
  const Tensor all = log_of({1, 1, 1, 1}, false), skipped = log_of({1, 1, 1, 1}, true);
  EXPECT_GT(relative_error(skipped, all), 10 * 0.08) << "ten times the tolerance";
  EXPECT_TRUE(log_of({1, 2, 3, 4}, false).select(1, 0).select(1, 0).equal(torch::tensor({1.F, 6.F, 27.F, 108.F})));
}

TEST(Shapes, AreThoseOfTheModels) {
  const Trial trial = small_trial();
  int64_t values = 0;
  for (const auto& layer : make_model(trial).linears) values += layer->weight.numel();
  EXPECT_EQ(bytes_in_32_bits(gpt_linears(2, 32, 128)), 4 * values);
  const Trial images = small_trial(convnet_workload);
  EXPECT_EQ(bytes_in_32_bits(convnet_linears({.channels = 4})), 4 * make_model(images).linears.at(0)->weight.numel());
}

}  // namespace
