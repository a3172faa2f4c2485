// Codes, the optimizers with fewer bits against the plain one, their bytes against the formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "adafactor.h"
#include "adamw.h"
#include "common/measure/memory.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"
#include "eight_bit_adamw.h"
#include "eight_bit_codes.h"
#include "rounded_weights.h"
#include "sixteen_bit_adamw.h"
#include "state_bytes.h"
#include "wrong_optimizers.h"

namespace tenfold {
namespace {

using torch::Tensor;

/// Half a step between neighbouring codes, and a thousandth of it for the arithmetic in 32 bits.
double half_step(double octaves, double largest_code) { return 1.001 * (std::exp2(octaves / largest_code / 2) - 1); }

/// What a row of values becomes by way of its codes.
Tensor averages_stored(const Tensor& values) {
  const Tensor codes = torch::empty_like(values, torch::kChar), maxima = torch::empty({values.size(0), 1});
  encode_averages(values, codes, maxima);
  return decode_averages(codes, maxima);
}
Tensor squares_stored(const Tensor& values) {
  const Tensor codes = torch::empty_like(values, torch::kByte), maxima = torch::empty({values.size(0), 1});
  encode_squares(values, codes, maxima);
  return decode_squares(codes, maxima);
}

/// Rows of magnitudes from 2^-octaves to 1, times a factor for each row.
Tensor magnitudes(double octaves) {
  torch::manual_seed(33);
  Tensor values = torch::exp2(-octaves * torch::rand({8, kBlock}));
  values.select(1, 7) = 1;
  return values * torch::tensor({1e-12F, 1e-9F, 1e-6F, 1e-3F, 1.F, 3.F, 1e3F, 1e6F}).view({8, 1});
}

TEST(EightBitCodes, AveragesAreRightWithinHalfAStep) {
  const Tensor values = magnitudes(kAverageOctaves) * torch::where(torch::rand({8, kBlock}) < 0.5, -1.0, 1.0);
  const Tensor stored = averages_stored(values);
  EXPECT_LE((stored / values - 1).abs().max().item<double>(), half_step(kAverageOctaves, kLargestAverageCode - 1));
  EXPECT_TRUE(torch::equal(stored.abs().amax(1), values.abs().amax(1))) << "a block's largest is exact";
  EXPECT_TRUE(torch::equal(averages_stored(stored), stored)) << "a code's value has this code";
}

TEST(EightBitCodes, SquaresAreRightWithinHalfAStep) {
  const Tensor values = magnitudes(kSquareOctaves), stored = squares_stored(values);
  EXPECT_LE((stored / values - 1).abs().max().item<double>(), half_step(kSquareOctaves, kLargestSquareCode));
  EXPECT_TRUE(torch::equal(stored.amax(1), values.amax(1)));
  EXPECT_TRUE(torch::equal(squares_stored(stored), stored));
}

TEST(EightBitCodes, ATinyAverageBecomesZeroAndATinySquareDoesNot) {
  Tensor values = torch::ones({1, kBlock});
  values[0][3] = 1e-9F;
  values[0][4] = 0;
  EXPECT_EQ(averages_stored(values)[0][3].item<float>(), 0);
  EXPECT_EQ(averages_stored(values)[0][4].item<float>(), 0);
  for (const int at : {3, 4}) EXPECT_NEAR(squares_stored(values)[0][at].item<double>() * std::exp2(24), 1, 1e-5);
}

TEST(EightBitCodes, ABlockOfZerosStaysZero) {
  const Tensor zeros = torch::zeros({2, kBlock});
  EXPECT_TRUE(torch::equal(averages_stored(zeros), zeros));
  EXPECT_TRUE(torch::equal(squares_stored(zeros), zeros));
}

TEST(RoundByChance, TheMeanIsRightAndBothNeighboursCome) {
  // bf16 has 7 bits behind the first: between 1 and 2 its neighbours are 2^-7 apart. A quarter of the way up.
  constexpr int64_t kCount = 100'000;
  const double step = std::exp2(-7), value = 1 + step / 4;
  for (const double sign : {1.0, -1.0}) {
    const Tensor values = torch::full({kCount}, sign * value);
    round_by_chance(values, own_generator(torch::kCPU, 33));
    EXPECT_TRUE(torch::equal(values, values.to(torch::kBFloat16).to(torch::kFloat)));
    const double up = (values.abs() > 1.001).sum().item<double>() / kCount;
    EXPECT_NEAR(up, 0.25, 6 * std::sqrt(0.25 * 0.75 / kCount));  // six standard deviations
    EXPECT_EQ((values.abs() == 1).sum().item<int64_t>() + (values.abs() == 1 + step).sum().item<int64_t>(), kCount);
  }
  const Tensor exact = torch::tensor({0.F, -0.5F, 1.F, 96.F, 1e-30F}).to(torch::kBFloat16).to(torch::kFloat);
  const Tensor rounded = exact.clone();
  round_by_chance(rounded, own_generator(torch::kCPU, 1));
  EXPECT_TRUE(torch::equal(rounded, exact));
}

const AdamWSettings kSettings{.learning_rate = 1e-2, .weight_decay = 0.1};

/// Small and large tensors, some of which end within a block.
std::vector<Tensor> some_parameters() {
  torch::manual_seed(33);
  std::vector<Tensor> all;
  for (const torch::IntArrayRef shape : std::vector<std::vector<int64_t>>{{7}, {64, 3}, {4096}, {100, 77}, {128, 256}})
    all.push_back(torch::randn(shape).requires_grad_());
  return all;
}

/// Parameters after ten updates with random gradients, which are the same for all.
template <class Optimizer>
std::vector<Tensor> trained(const std::function<std::shared_ptr<Optimizer>(std::vector<Tensor>)>& make,
                            std::vector<Tensor> parameters = some_parameters()) {
  const auto optimizer = make(parameters);
  torch::manual_seed(1);
  for (int update = 0; update < 10; ++update) {
    for (const Tensor& parameter : parameters) {
      // Of sizes that differ by four orders of magnitude.
      const Tensor sizes = torch::exp2(-13 * torch::rand_like(parameter));
      parameter.mutable_grad() = torch::randn_like(parameter) * sizes;
    }
    optimizer->step();
  }
  return parameters;
}

std::vector<Tensor> plain() {
  return trained<AdamW>([](const auto& parameters) { return std::make_shared<AdamW>(parameters, kSettings); });
}
std::vector<Tensor> eight_bits(int64_t chunk) {
  return trained<EightBitAdamW>(
      [&](const auto& parameters) { return std::make_shared<EightBitAdamW>(parameters, kSettings, chunk); });
}

void expect_equal(const std::vector<Tensor>& ours, const std::vector<Tensor>& theirs) {
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(torch::equal(ours[i], theirs[i])) << "tensor " << i << " of shape " << ours[i].sizes();
}

/// Largest distance between two trainings, over the way that the second went: by tensor.
double distance(const std::vector<Tensor>& ours, const std::vector<Tensor>& theirs) {
  const auto start = some_parameters();
  double worst = 0;
  for (size_t i = 0; i < ours.size(); ++i)
    worst = std::max(worst, ((ours[i] - theirs[i]).norm() / (theirs[i] - start[i]).norm()).item<double>());
  return worst;
}

TEST(AdamW, IsLibTorchsButForRounding) {
  const auto theirs = trained<torch::optim::AdamW>([](const auto& parameters) {
    return std::make_shared<torch::optim::AdamW>(
        parameters, torch::optim::AdamWOptions(kSettings.learning_rate).weight_decay(kSettings.weight_decay));
  });
  EXPECT_LE(distance(plain(), theirs), 1e-5);  // ten updates, each rounded to 6e-8 of weights of about 1
  AdamWSettings no_decay = kSettings;
  no_decay.weight_decay = 0;
  const auto adam =
      trained<AdamW>([&](const auto& parameters) { return std::make_shared<AdamW>(parameters, no_decay); });
  const auto their_adam = trained<torch::optim::Adam>([](const auto& parameters) {
    return std::make_shared<torch::optim::Adam>(parameters, torch::optim::AdamOptions(kSettings.learning_rate));
  });
  EXPECT_LE(distance(adam, their_adam), 1e-5);
}

TEST(EightBitAdamW, SmallTensorsAreUpdatedAsBefore) {
  const auto ours = eight_bits(1 << 16), theirs = plain();
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(torch::equal(ours[i], theirs[i]));
  EXPECT_FALSE(torch::equal(ours[2], theirs[2])) << "4096 values are not fewer than 4096";
}

TEST(EightBitAdamW, GoesNearlyTheSameWay) {
  // A stored average is off by up to 2.9 %, and the next updates keep nine tenths of that: 29 % at most. A lost sign,
  // or squares that are not stored, lead somewhere else altogether.
  EXPECT_LE(distance(eight_bits(1 << 16), plain()), 0.29);
}

TEST(EightBitAdamW, ChunksChangeNothing) {
  const auto whole = eight_bits(1 << 20);
  for (const int64_t chunk : {1, 256, 1000, 8192}) expect_equal(eight_bits(chunk), whole);
}

TEST(EightBitAdamW, AWholeCopyIsTheSameToTheBit) {
  const auto copies = trained<WholeCopyAdamW>(
      [](const auto& parameters) { return std::make_shared<WholeCopyAdamW>(parameters, kSettings); });
  expect_equal(copies, eight_bits(1 << 16));
}

/// A convolution's weights after ten updates, as (out, height, width, in): either as channels_last, which lies in
/// memory in this order, or as a plain tensor of this shape.
template <class Optimizer>
Tensor convolution_weights(const std::function<Optimizer(std::vector<Tensor>)>& make, bool channels_last,
                           torch::MemoryFormat of_gradients) {
  torch::manual_seed(33);
  const Tensor start = torch::randn({64, 16, 3, 3}).contiguous(torch::MemoryFormat::ChannelsLast);
  const Tensor weights = (channels_last ? start.clone() : start.permute({0, 2, 3, 1}).contiguous()).requires_grad_();
  Optimizer optimizer = make({weights});
  for (int update = 0; update < 10; ++update) {
    const Tensor gradient = torch::randn({64, 16, 3, 3}).contiguous(of_gradients);
    weights.mutable_grad() = channels_last ? gradient : gradient.permute({0, 2, 3, 1}).contiguous();
    optimizer.step();
  }
  return (channels_last ? weights.permute({0, 2, 3, 1}) : weights).detach();
}

TEST(Chunks, OfChannelsLastAreInTheOrderOfMemory) {
  const auto eight = [](const auto& parameters) { return EightBitAdamW(parameters, kSettings, 1 << 16); };
  const auto sixteen = [](const auto& parameters) {
    return SixteenBitAdamW(parameters, kSettings, 1 << 16, /*seed=*/1);
  };
  // LibTorch keeps a gradient in its parameter's order; one that somebody assigns may be in the other.
  for (const auto format : {torch::MemoryFormat::ChannelsLast, torch::MemoryFormat::Contiguous}) {
    EXPECT_TRUE(torch::equal(convolution_weights<EightBitAdamW>(eight, true, format),
                             convolution_weights<EightBitAdamW>(eight, false, format)));
    EXPECT_TRUE(torch::equal(convolution_weights<SixteenBitAdamW>(sixteen, true, format),
                             convolution_weights<SixteenBitAdamW>(sixteen, false, format)));
  }
}

TEST(Chunks, OfATensorWithGapsAreRefused) {
  EXPECT_THROW((void)Chunk({0, 8}).of(torch::zeros({8, 2}).select(1, 0)), c10::Error);
}

TEST(SixteenBitAdamW, GoesNearlyTheSameWayAndTheSeedDecides) {
  const auto ours = [](uint64_t seed) {
    return trained<SixteenBitAdamW>([&](const auto& parameters) {
      return std::make_shared<SixteenBitAdamW>(parameters, kSettings, 1 << 16, seed);
    });
  };
  const auto first = ours(1);
  // A stored average is off by up to 0.8 %, and the next updates keep nine tenths of that.
  EXPECT_LE(distance(first, plain()), 0.08);
  expect_equal(ours(1), first);
  EXPECT_FALSE(torch::equal(ours(2).back(), first.back()));
}

TEST(Adafactor, OfRowsThatAreAlikeTheEstimateIsExact) {
  torch::manual_seed(33);
  const Tensor rows = torch::rand({5, 1}) + 0.1, columns = torch::rand({1, 9}) + 0.1;
  const Tensor gradient = rows.matmul(columns);
  const FactoredSquares state(torch::zeros({5, 9}));
  const Tensor estimate = state.estimate(gradient, /*weight=*/1, /*epsilon=*/1e-7);
  EXPECT_TRUE(torch::allclose(estimate, gradient.square(), 1e-5));
}

TEST(Adafactor, AnUpdateIsItsRateTimesTheTensorsSize) {
  Tensor weights = torch::full({6, 4}, 2.0).requires_grad_();
  Adafactor optimizer({weights}, {.rate = 0.01});
  weights.mutable_grad() = torch::full({6, 4}, -3.0);
  optimizer.step();
  EXPECT_TRUE(torch::allclose(weights, torch::full({6, 4}, 2.02)));
}

TEST(OverwrittenRate, OnlyTheFirstTensorMovesAsItShould) {
  const auto run = [](auto make) {
    std::vector<Tensor> all = {torch::full({8}, 0.5).requires_grad_(), torch::full({8}, 0.5).requires_grad_()};
    const auto optimizer = make(all);
    for (const Tensor& one : all) one.mutable_grad() = torch::ones({8});
    optimizer->step();
    return std::pair(0.5 - all[0][0].template item<double>(), 0.5 - all[1][0].template item<double>());
  };
  const AdafactorSettings settings{.rate = 0.1};
  const auto right = run([&](const auto& all) { return std::make_shared<Adafactor>(all, settings); });
  const auto wrong = run([&](const auto& all) { return std::make_shared<OverwrittenRateAdafactor>(all, settings); });
  EXPECT_NEAR(right.first, 0.05, 1e-6);
  EXPECT_NEAR(right.second, 0.05, 1e-6);
  EXPECT_NEAR(wrong.first, 0.05, 1e-6);
  EXPECT_NEAR(wrong.second, 0.025, 1e-6) << "halved by the size of the first, too";
}

/// Bytes of an optimizer's own tensors, by the allocator.
template <class Optimizer>
int64_t counted_bytes(const std::function<std::shared_ptr<Optimizer>(std::vector<Tensor>)>& make,
                      const std::vector<Tensor>& parameters) {
  for (const Tensor& parameter : parameters) parameter.mutable_grad() = torch::zeros_like(parameter);
  const CountCpuMemory counting;
  const int64_t before = live_bytes(torch::kCPU);
  const auto optimizer = make(parameters);
  optimizer->step();
  return live_bytes(torch::kCPU) - before;
}

/// A block of memory may be up to 15 bytes larger than was asked for; there are at most four for each parameter.
void expect_bytes(int64_t counted, int64_t by_formula, size_t parameters) {
  EXPECT_GE(counted, by_formula);
  EXPECT_LE(counted, by_formula + static_cast<int64_t>(parameters) * 4 * 15);
}

void expect_bytes(const std::vector<Tensor>& parameters, const Shapes& shapes) {
  const size_t count = parameters.size();
  expect_bytes(
      counted_bytes<AdamW>([](const auto& all) { return std::make_shared<AdamW>(all, kSettings); }, parameters),
      adamw_bytes(shapes), count);
  expect_bytes(
      counted_bytes<SixteenBitAdamW>(
          [](const auto& all) { return std::make_shared<SixteenBitAdamW>(all, kSettings, 1 << 16, 1); }, parameters),
      sixteen_bit_bytes(shapes), count);
  expect_bytes(
      counted_bytes<EightBitAdamW>(
          [](const auto& all) { return std::make_shared<EightBitAdamW>(all, kSettings, 1 << 16); }, parameters),
      eight_bit_bytes(shapes), count);
  expect_bytes(counted_bytes<Adafactor>(
                   [](const auto& all) { return std::make_shared<Adafactor>(all, AdafactorSettings{}); }, parameters),
               adafactor_bytes(shapes), count);
}

TEST(StateBytes, AreThoseOfTheFormulas) {
  Shapes shapes;
  for (const Tensor& parameter : some_parameters()) shapes.push_back(parameter.sizes().vec());
  expect_bytes(some_parameters(), shapes);
  const GptOptions gpt{.layers = 2, .width = 40, .length = 24};
  expect_bytes(Gpt(gpt)->parameters(), gpt_shapes(gpt));
  for (const int64_t layers : {1, 2, 4}) {
    const MlpOptions mlp{.layers = layers, .width = 72};
    expect_bytes(Mlp(mlp)->parameters(), mlp_shapes(mlp));
  }
}

}  // namespace
}  // namespace tenfold
