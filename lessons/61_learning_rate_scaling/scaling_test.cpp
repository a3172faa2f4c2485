// The noise scale, the warm-up and muP, each against what is known without them.
#include <gtest/gtest.h>

#include "critical_batch.h"
#include "gradient_noise.h"
#include "mup.h"
#include "noise_survey.h"
#include "prediction.h"
#include "rate_training.h"
#include "warmup.h"
#include "widths.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/support.h"

namespace {

using namespace tenfold;
using torch::Tensor;

Trial trial_with(std::map<std::string, SettingValue> changed = {}) {
  auto record = std::make_shared<TrialRecord>();
  record->given = {{"batch", int64_t{16}}, {"layers", int64_t{2}}, {"width", int64_t{16}}, {"learning_rate", 0.02}};
  for (auto& [name, value] : changed) record->given[name] = value;
  Trial trial(record);
  trial.workload = mlp_workload;
  trial.seed = 3;
  return trial;
}

/// Linear regression on x ~ N(0, I) in D dimensions with the target 0, at weights w with |w|^2 = q, loss (w x)^2 / 2.
/// A sample's gradient is (w x) x: G = w, and E|g|^2 = E (w x)^2 |x|^2 = (D + 2) q, so that tr(S) = (D + 1) q and the
/// noise scale is D + 1, whatever w is.
struct Regression {
  static constexpr int64_t kDimensions = 20;
  Tensor w = torch::full({kDimensions}, 0.3, torch::kDouble);

  Tensor gradient(int64_t batch) const {
    const Tensor x = torch::randn({batch, kDimensions}, torch::kDouble);
    return (x.matmul(w).unsqueeze(1) * x).mean(0);
  }
  double squared_norm() const { return w.square().sum().item<double>(); }
};

GradientNoise measured(const Regression& problem, int64_t small, int64_t times, int64_t updates) {
  torch::manual_seed(1);
  GradientNoise noise(small, small * times);
  for (int64_t update = 0; update < updates; ++update) {
    Tensor sum = torch::zeros_like(problem.w), squares = torch::zeros({}, torch::kDouble);
    for (int64_t i = 0; i < times; ++i) {
      const Tensor gradient = problem.gradient(small);
      sum += gradient;
      squares += squared_norm_of({gradient});
    }
    noise.add(squares / times, squared_norm_of({sum / times}));
  }
  return noise;
}

TEST(GradientNoise, IsTheClosedFormOfALinearRegression) {
  const Regression problem;
  const double dimensions = Regression::kDimensions, q = problem.squared_norm();
  for (const int64_t small : {1, 4}) {
    const NoiseEstimate found = measured(problem, small, 8, 1500).estimate();
    EXPECT_NEAR(found.squared_norm / q, 1, 0.05) << small;
    EXPECT_NEAR(found.trace / ((dimensions + 1) * q), 1, 0.05) << small;
    EXPECT_NEAR(found.scale() / (dimensions + 1), 1, 0.08) << small;
  }
}

TEST(GradientNoise, OfTwoBatchesSolvesTheTwoEquations) {
  const double norm = 3, trace = 50;
  const NoiseEstimate found = noise_of_two_batches(4, 32, norm + trace / 4, norm + trace / 32);
  EXPECT_NEAR(found.squared_norm, norm, 1e-12);
  EXPECT_NEAR(found.trace, trace, 1e-11);
  EXPECT_NEAR(found.scale(), trace / norm, 1e-11);
  EXPECT_TRUE(std::isinf(noise_of_two_batches(4, 32, 5, 0.1).scale())) << "the noise hides the gradient";
  EXPECT_NE(test::message_of<c10::ValueError>([] { noise_of_two_batches(8, 8, 1, 1); }), "");
  EXPECT_NE(test::message_of<c10::ValueError>([] { GradientNoise(1, 2, 0); }), "");
  EXPECT_NE(test::message_of<c10::Error>([] { (void)GradientNoise(1, 2).estimate(); }), "");
}

TEST(GradientNoise, DecayForgetsWhatWasBefore) {
  const auto square = [](double value) { return torch::tensor(value, torch::kDouble); };
  GradientNoise all(1, 2), recent(1, 2, 0.5);
  for (int i = 0; i < 30; ++i) {
    for (GradientNoise* noise : {&all, &recent}) noise->add(square(9), square(5));  // norm 1, trace 8
  }
  EXPECT_NEAR(recent.estimate().scale(), 8, 1e-9) << "the first updates must not pull an average towards 0";
  for (int i = 0; i < 30; ++i) {
    for (GradientNoise* noise : {&all, &recent}) noise->add(square(3), square(2));  // norm 1, trace 2
  }
  EXPECT_NEAR(recent.estimate().scale(), 2, 1e-6);
  EXPECT_NEAR(all.estimate().scale(), 5, 1e-9);
}

TEST(GradientNoise, NormOfManyTensorsIsThatOfOne) {
  const Tensor a = torch::randn({3, 4}), b = torch::randn({5});
  const double expected = torch::cat({a.flatten(), b}).to(torch::kDouble).square().sum().item<double>();
  EXPECT_NEAR(squared_norm_of({a, Tensor(), b}).item<double>(), expected, 1e-5 * expected);
  EXPECT_NE(test::message_of<c10::ValueError>([] { squared_norm_of({Tensor()}); }), "");
}

TEST(GradientNoise, NormIsComputedIn32BitsAtLeast) {
  const Tensor threes = torch::full({1001}, 3.0);
  const double expected = 9.0 * 1001;
  EXPECT_NEAR(squared_norm_of({threes.to(torch::kBFloat16)}).item<double>(), expected, 1e-6 * expected);
  const Tensor large = torch::full({4}, 60000.0, torch::kHalf);  // their norm is 120000
  EXPECT_EQ(squared_norm_of({large}).item<double>(), 4 * 60000.0 * 60000.0);
  const Tensor exact = torch::full({1}, 1 + 1e-12, torch::kDouble);
  EXPECT_NEAR(squared_norm_of({exact, large}).item<double>() - 4 * 60000.0 * 60000.0, 1, 1e-5);
}

TEST(NoiseSurvey, TheAverageOfRatiosIsAnotherNumber) {
  const Regression problem;
  torch::manual_seed(1);
  double ratios = 0;
  for (int update = 0; update < 400; ++update) {
    const Tensor a = problem.gradient(1), b = problem.gradient(1);
    const double small = (squared_norm_of({a}) + squared_norm_of({b})).item<double>() / 2;
    const NoiseEstimate alone = noise_of_two_batches(1, 2, small, squared_norm_of({(a + b) / 2}).item<double>());
    ratios += alone.trace / alone.squared_norm / 400;
  }
  EXPECT_GT(std::abs(ratios / (Regression::kDimensions + 1) - 1), 0.5);
}

TEST(NoiseSurvey, VarianceFallsAsOneOverTheBatchAndThatOfSumsGrows) {
  FixedWeights weights = weights_after(trial_with(), 8);
  std::vector<double> sizes, means, sums;
  for (const int64_t batch : {2, 8, 32}) {
    const double variance = weights.variance(batch, 100), size = static_cast<double>(batch);
    sizes.push_back(size);
    means.push_back(variance);
    sums.push_back(variance * size * size);
  }
  EXPECT_NEAR(exponent(sizes, means), -1, 0.12);
  EXPECT_NEAR(exponent(sizes, sums), 1, 0.12);
  const NoiseEstimate exact = weights.exact();
  EXPECT_NEAR(means[1] * 8 / exact.trace, 1, 0.2) << "tr(S) / B";
  const MeasuredNoise found = measured_noise(weights, 16, 8, 40);
  EXPECT_NEAR(found.estimate.scale() / exact.scale(), 1, 0.35);
}

TEST(WarmUp, RisesByTheSameAmountInEveryUpdateAndFallsToZero) {
  const Tensor w = torch::zeros({1}, at::requires_grad());
  torch::optim::SGD sgd(std::vector<Tensor>{w}, torch::optim::SGDOptions(0.1));
  WarmUp warm_up(sgd, {.factor = 5, .warm_up = 4, .updates = 8});
  std::vector<double> rates;
  for (int update = 0; update < 9; ++update) {
    rates.push_back(sgd.param_groups()[0].options().get_lr());
    warm_up.step();
  }
  const std::vector<double> expected = {0.1, 0.2, 0.3, 0.4, 0.5, 0.375, 0.25, 0.125, 0};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(rates[i], expected[i], 1e-12) << i;
  warm_up.resume(2);
  EXPECT_NEAR(sgd.param_groups()[0].options().get_lr(), 0.3, 1e-12) << "as an undisturbed training has it";
}

TEST(WarmUp, KeepsTheRatiosBetweenGroups) {
  const Tensor a = torch::zeros({1}, at::requires_grad()), b = torch::zeros({1}, at::requires_grad());
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<Tensor>{a}, std::make_unique<torch::optim::AdamOptions>(0.1));
  groups.emplace_back(std::vector<Tensor>{b}, std::make_unique<torch::optim::AdamOptions>(0.01));
  torch::optim::Adam adam(groups, torch::optim::AdamOptions(1));
  const WarmUp none(adam, {.factor = 3});
  EXPECT_NEAR(adam.param_groups()[0].options().get_lr(), 0.3, 1e-12) << "without a warm-up at once";
  EXPECT_NEAR(adam.param_groups()[1].options().get_lr(), 0.03, 1e-12);
}

TEST(WarmUp, RefusesWhatIsNoSchedule) {
  torch::optim::SGD sgd(std::vector<Tensor>{torch::zeros({1}, at::requires_grad())}, torch::optim::SGDOptions(0.1));
  EXPECT_NE(test::message_of<c10::ValueError>([&] { WarmUp(sgd, {.factor = 0}); }), "");
  EXPECT_NE(test::message_of<c10::ValueError>([&] { WarmUp(sgd, {.warm_up = -1}); }), "");
  EXPECT_NE(test::message_of<c10::ValueError>([&] { WarmUp(sgd, {.warm_up = 5, .updates = 5}); }), "");
  EXPECT_NE(test::message_of<c10::ValueError>([] { rate_factor(RateRule::linear, 0); }), "");
  EXPECT_EQ(rate_factor(RateRule::none, 4), 1);
  EXPECT_EQ(rate_factor(RateRule::square_root, 4), 2);
  EXPECT_EQ(rate_factor(RateRule::linear, 4), 4);
}

/// v = m v + g and w -= lr v, as the header says of SGD: a changed rate counts for the whole of v.
TEST(WarmUp, SgdNeedsNoMomentumCorrection) {
  Tensor w = torch::zeros({1}, at::requires_grad());
  torch::optim::SGD sgd(std::vector<Tensor>{w}, torch::optim::SGDOptions(0.1).momentum(0.5));
  w.mutable_grad() = torch::ones({1});
  sgd.step();  // v = 1
  sgd.param_groups()[0].options().set_lr(1);
  sgd.step();  // v = 1.5
  EXPECT_NEAR(w.item<double>(), -0.1 - 1.5, 1e-6);
}

TEST(CriticalBatch, FitGivesBackWhatItWasMadeFrom) {
  std::vector<double> batches = {8, 32, 128, 512}, updates;
  for (const double batch : batches) updates.push_back(20 * updates_over_least(77, batch));
  const CriticalBatch fitted = fit_critical_batch(batches, updates);
  EXPECT_NEAR(fitted.batch, 77, 1e-6);
  EXPECT_NEAR(fitted.least_updates, 20, 1e-6);
}

/// One update of the regression's loss |w|^2 / 2, whose curvature is the same everywhere: the best rate of a batch
/// takes 1 / (1 + B_noise / B) of the way that the whole gradient goes.
TEST(CriticalBatch, PredictionIsTheBestUpdateOfAQuadratic) {
  const Regression problem;
  torch::manual_seed(2);
  const double noise = Regression::kDimensions + 1;
  for (const int64_t batch : {8, 64}) {
    double along = 0, squared = 0;  // E of G g and |g|^2: the loss falls by rate along - rate^2 squared / 2
    for (int i = 0; i < 3000; ++i) {
      const Tensor gradient = problem.gradient(batch);
      along += gradient.dot(problem.w).item<double>() / 3000;
      squared += gradient.square().sum().item<double>() / 3000;
    }
    const double fall = along * along / squared / 2, fall_without_noise = problem.squared_norm() / 2;
    EXPECT_NEAR(fall_without_noise / fall / updates_over_least(noise, static_cast<double>(batch)), 1, 0.06) << batch;
  }
}

TEST(BestRate, IsTheLowestAndNotADivergedOne) {
  EXPECT_EQ(best_rate({1, 2, 4}, [](double rate) { return std::abs(rate - 2); }), 2);
  EXPECT_EQ(best_rate({1, 2}, [](double rate) { return rate == 1 ? std::nan("") : 5.0; }), 2);
  EXPECT_EQ(rates_around(1, -1, 1), (std::vector<double>{0.5, 1, 2}));
}

struct TwoLayersImpl : torch::nn::Module {
  explicit TwoLayersImpl(int64_t width, int64_t classes = 3)
      : tokens(register_module("tokens", torch::nn::Embedding(7, width))),
        norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        hidden(register_module("hidden", torch::nn::Linear(width, 2 * width))),
        head(register_module("head", torch::nn::Linear(2 * width, classes))) {}
  torch::nn::Embedding tokens;
  torch::nn::LayerNorm norm;
  torch::nn::Linear hidden, head;
};
TORCH_MODULE(TwoLayers);

template <class Options>
std::map<std::string, double> rates_of(torch::nn::Module& model, torch::nn::Module& base, const Options& options) {
  std::map<const void*, std::string> names;
  for (const auto& item : model.named_parameters()) names[item.value().unsafeGetTensorImpl()] = item.key();
  std::map<std::string, double> rates;
  for (const auto& group : mup_groups(model, base, options))
    rates[names.at(group.params().at(0).unsafeGetTensorImpl())] = group.options().get_lr();
  return rates;
}

/// The paper's table 3, for a model four times as wide.
TEST(Mup, RatesAreThoseOfThePapersTable) {
  TwoLayers base(8), model(32);
  EXPECT_EQ(rates_of(*model, *base, torch::optim::AdamOptions(1)),
            (std::map<std::string, double>{{"tokens.weight", 1},
                                           {"norm.weight", 1},
                                           {"norm.bias", 1},
                                           {"hidden.weight", 0.25},
                                           {"hidden.bias", 1},
                                           {"head.weight", 0.25},
                                           {"head.bias", 1}}));
  EXPECT_EQ(rates_of(*model, *base, torch::optim::SGDOptions(1)), (std::map<std::string, double>{{"tokens.weight", 4},
                                                                                                 {"norm.weight", 4},
                                                                                                 {"norm.bias", 4},
                                                                                                 {"hidden.weight", 1},
                                                                                                 {"hidden.bias", 4},
                                                                                                 {"head.weight", 0.25},
                                                                                                 {"head.bias", 1}}));
}

TEST(Mup, OnlyTheOutputLayerBeginsSmaller) {
  TwoLayers base(8), model(32);
  std::map<std::string, Tensor> before;
  for (const auto& item : model->named_parameters()) before[item.key()] = item.value().detach().clone();
  mup_initialise(*model, *base);
  for (const auto& item : model->named_parameters()) {
    const double scale = item.key() == "head.weight" ? 0.5 : 1;
    EXPECT_TRUE(torch::allclose(item.value(), before[item.key()] * scale)) << item.key();
  }
}

TEST(Mup, AtTheBasesWidthNothingChanges) {
  TwoLayers base(8), model(8);
  for (const auto& [name, rate] : rates_of(*model, *base, torch::optim::AdamOptions(0.1))) EXPECT_EQ(rate, 0.1) << name;
  const Tensor before = model->head->weight.detach().clone();
  mup_initialise(*model, *base);
  EXPECT_TRUE(torch::equal(model->head->weight, before));
}

TEST(Mup, RefusesAnotherModelAsBase) {
  TwoLayers model(8);
  torch::nn::Linear other(8, 8);
  EXPECT_NE(test::message_of<c10::ValueError>([&] { mup_initialise(*model, *other); }), "");
}

/// Two layers that are one, between an embedding and an output layer, which are one where `tied`.
std::shared_ptr<torch::nn::Module> tied_model(int64_t width, bool tied) {
  const auto model = std::make_shared<torch::nn::Module>();
  const auto tokens = model->register_module("tokens", torch::nn::Embedding(10, width));
  const auto hidden = model->register_module("hidden", torch::nn::Linear(width, width));
  const auto again = model->register_module("again", std::make_shared<torch::nn::Module>());
  again->register_parameter("weight", hidden->weight);
  const auto head = model->register_module("head", std::make_shared<torch::nn::Module>());
  head->register_parameter("weight", tied ? tokens->weight : torch::rand({10, width}));
  return model;
}

TEST(Mup, ATiedParameterHasOneGroup) {
  const auto base = tied_model(4, false), model = tied_model(8, false);
  const auto groups = mup_groups(*model, *base, torch::optim::AdamOptions(1.0));
  ASSERT_EQ(groups.size(), 4U);  // the embedding, the hidden layer's weight and bias, the output layer
  EXPECT_TRUE(groups[1].params()[0].is_same(model->named_parameters()["again.weight"]));
  EXPECT_EQ(groups[1].options().get_lr(), 0.5);
}

TEST(Mup, AnOutputLayerThatIsTheEmbeddingIsRefused) {
  const auto base = tied_model(4, true), model = tied_model(8, true);
  const std::string message = test::message_of<c10::ValueError>([&] { mup_initialise(*model, *base); });
  EXPECT_NE(message.find("'head.weight' is tied"), std::string::npos) << message;
}

TEST(Mup, CoordinatesDoNotGrowWithTheWidth) {
  const Trial trial =
      trial_with({{"layers", int64_t{4}}, {"optimizer", std::string("adam")}, {"base_width", int64_t{32}}});
  const std::vector<int64_t> widths = {32, 128, 512};
  const Coordinates standard = coordinate_check(trial, Parametrisation::standard, 0.001, widths, 2);
  const Coordinates mup = coordinate_check(trial, Parametrisation::mup, 0.001, widths, 2);
  EXPECT_GT(standard.hidden, 0.45);
  EXPECT_GT(standard.logits, 0.45);
  EXPECT_LT(std::abs(mup.first), 0.2);
  EXPECT_LT(std::abs(mup.hidden), 0.25);
  EXPECT_LT(mup.logits, 0.2);
}

}  // namespace
