// Muon, Lion and schedule-free AdamW against their formulas in 64 bits; what they keep, save and refuse.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "common/measure/counted.h"
#include "common/measure/memory.h"
#include "common/models/convnet.h"
#include "common/models/gpt.h"
#include "common/models/mlp.h"
#include "lion.h"
#include "muon.h"
#include "schedule_free.h"
#include "state_bytes.h"
#include "trained.h"

namespace tenfold {
namespace {

using torch::Tensor;
using torch::optim::Optimizer;
using Tensors = std::vector<Tensor>;

const std::vector<std::vector<int64_t>> kMatrices = {{48, 16}, {16, 48}, {24, 24}, {1, 8}};

double relative(const Tensor& ours, const Tensor& exact) {
  return ((ours.to(torch::kDouble) - exact).norm() / exact.norm()).item<double>();
}

// --- Newton-Schulz --------------------------------------------------------------------------------------------------

/// The polynomial of the singular values themselves, in 64 bits: no products of the matrix with itself.
Tensor orthogonal_by_svd(const Tensor& matrix) {
  const auto [u, s, vh] = torch::linalg_svd(matrix.to(torch::kDouble), /*full_matrices=*/false, c10::nullopt);
  Tensor x = s / s.norm();
  for (int step = 0; step < 5; ++step) x = 3.4445 * x - 4.7750 * x.pow(3) + 2.0315 * x.pow(5);
  return u.mm(x.unsqueeze(1) * vh);
}

// A value of bf16 is off by up to 2^-9, 0.2 %, and each of 15 products rounds anew; the polynomial's slope carries
// errors on. 3 % of the whole is what that comes to with room, and less than any wrong coefficient does.
constexpr double kBf16Margin = 0.03;

TEST(NewtonSchulz, IsThePolynomialOfTheSingularValues) {
  torch::manual_seed(64);
  for (const auto& shape : kMatrices) {
    for (const double size : {1e-4, 1.0, 1e4}) {
      const Tensor matrix = size * torch::randn(shape);
      for (const bool native : {false, true}) {
        const Tensor ours = newton_schulz(matrix, MuonOptions().native_bf16(native));
        EXPECT_EQ(ours.sizes(), matrix.sizes());
        EXPECT_LE(relative(ours, orthogonal_by_svd(matrix)), kBf16Margin) << matrix.sizes() << " of size " << size;
      }
    }
  }
}

TEST(NewtonSchulz, ProductsOf32BitsThatAreRoundedDifferByTheOrderOfSums) {
  torch::manual_seed(64);
  for (const auto& shape : kMatrices) {
    const Tensor matrix = torch::randn(shape);
    const Tensor rounded = newton_schulz(matrix, MuonOptions()),
                 native = newton_schulz(matrix, MuonOptions().native_bf16(true));
    EXPECT_LE(relative(rounded, native.to(torch::kDouble)),
              0.01);  // sums in another order round otherwise now and then
    EXPECT_TRUE(torch::equal(rounded, rounded.to(torch::kBFloat16).to(torch::kFloat))) << "bf16 holds it";
  }
}

TEST(NewtonSchulz, SingularValuesComeNearOne) {
  torch::manual_seed(64);
  const Tensor values = torch::linalg_svdvals(newton_schulz(torch::randn({64, 32}), MuonOptions()), c10::nullopt);
  EXPECT_GE(values.min().item<double>(), 0.65);
  EXPECT_LE(values.max().item<double>(), 1.25);
}

TEST(NewtonSchulz, OfZerosIsZero) {
  EXPECT_EQ(newton_schulz(torch::zeros({4, 6}), MuonOptions()).abs().max().item<double>(), 0);
}

TEST(NewtonSchulz, NeedsTheFlopOfTheFormula) {
  for (const auto& shape : kMatrices) {
    const Tensor matrix = torch::randn(shape);
    const Counted counted = count_step(torch::kCPU, [&] {
      return Step{.items = 1, .update = [matrix] { return newton_schulz(matrix, MuonOptions()).sum(); }};
    });
    EXPECT_EQ(counted.whole.flops, newton_schulz_flop(shape));
  }
}

// --- against formulas in 64 bits ------------------------------------------------------------------------------------

Tensors some_parameters(const std::vector<std::vector<int64_t>>& shapes = kMatrices) {
  torch::manual_seed(1);
  Tensors all;
  for (const auto& shape : shapes) all.push_back(torch::randn(shape).requires_grad_());
  return all;
}

/// Gradient number `step` of parameter `i`: the same for all.
Tensor gradient_of(const Tensor& parameter, int step, size_t i) {
  torch::manual_seed(1000 + 10 * step + static_cast<int>(i));
  return torch::randn_like(parameter.detach());
}

void take_steps(Optimizer& optimizer, const Tensors& parameters, int steps, int from = 0) {
  for (int step = from; step < from + steps; ++step) {
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].mutable_grad() = gradient_of(parameters[i], step, i);
    optimizer.step();
  }
}

/// Each parameter's distance from a reference in 64 bits, over the way that the reference went.
double distance(const Tensors& ours, const Tensors& exact, const Tensors& start) {
  double worst = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    const Tensor from = start[i].detach().to(torch::kDouble);
    worst = std::max(
        worst, ((ours[i].detach().to(torch::kDouble) - exact[i]).norm() / (exact[i] - from).norm()).item<double>());
  }
  return worst;
}

/// Muon as PyTorch's documentation has it, with the polynomial of singular values.
Tensors muon_reference(const Tensors& start, int steps, const MuonOptions& o) {
  Tensors result;
  for (size_t i = 0; i < start.size(); ++i) {
    Tensor w = start[i].detach().to(torch::kDouble), buffer = torch::zeros_like(w);
    const auto rows = static_cast<double>(w.size(0)), columns = static_cast<double>(w.size(1));
    const double factor = o.adjust_lr_fn() == "original" ? std::sqrt(std::max(1.0, rows / columns))
                                                         : 0.2 * std::sqrt(std::max(rows, columns));
    for (int step = 0; step < steps; ++step) {
      const Tensor g = gradient_of(start[i], step, i).to(torch::kDouble);
      buffer = o.momentum() * buffer + (1 - o.momentum()) * g;
      const Tensor ahead = o.nesterov() ? o.momentum() * buffer + (1 - o.momentum()) * g : buffer;
      w = w - o.lr() * o.weight_decay() * w - o.lr() * factor * orthogonal_by_svd(ahead);
    }
    result.push_back(w);
  }
  return result;
}

TEST(Muon, IsItsFormula) {
  for (const bool nesterov : {true, false}) {
    for (const std::string adjust : {"original", "match_rms_adamw"}) {
      const auto options = MuonOptions(0.05).weight_decay(0.3).nesterov(nesterov).adjust_lr_fn(adjust);
      const Tensors parameters = some_parameters();
      Muon optimizer(parameters, options);
      take_steps(optimizer, parameters, 6);
      EXPECT_LE(distance(parameters, muon_reference(some_parameters(), 6, options), some_parameters()), kBf16Margin)
          << adjust << (nesterov ? ", Nesterov" : "");
    }
  }
}

TEST(Muon, AParameterWithoutGradientStays) {
  const Tensors parameters = some_parameters();
  Muon optimizer(parameters, MuonOptions(0.1));
  parameters[0].mutable_grad() = torch::ones_like(parameters[0]);
  optimizer.step();
  EXPECT_FALSE(torch::equal(parameters[0], some_parameters()[0]));
  EXPECT_TRUE(torch::equal(parameters[1], some_parameters()[1]));
  EXPECT_EQ(optimizer.state().size(), 1U);
}

TEST(Muon, RefusesWhatIsNoMatrixInOneLine) {
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{8}, {2, 3, 4}, {8, 3, 3, 3}}) {
    try {
      Muon optimizer(some_parameters({shape}));
      FAIL() << "took a parameter of " << shape.size() << " dimensions";
    } catch (const c10::ValueError& error) {
      const std::string said = error.what_without_backtrace();
      EXPECT_NE(said.find("is no matrix; give it to AdamW"), std::string::npos) << said;
      EXPECT_EQ(said.find('\n'), std::string::npos);
    }
  }
  EXPECT_THROW(Muon(some_parameters(), MuonOptions(-1)), c10::ValueError);
  EXPECT_THROW(Muon(some_parameters(), MuonOptions().weight_decay(-1)), c10::ValueError);
  EXPECT_THROW(Muon(some_parameters(), MuonOptions().momentum(-1)), c10::ValueError);
  EXPECT_THROW(Muon(some_parameters(), MuonOptions().ns_steps(100)), c10::ValueError);
  EXPECT_THROW(Muon(some_parameters(), MuonOptions().adjust_lr_fn("rms")), c10::ValueError);
}

TEST(Split, HiddenMatricesAreThoseOfTheBlocks) {
  const GptOptions options{.layers = 2, .width = 16, .heads = 2, .length = 8};
  const Gpt model(options);
  const MuonSplit split = split_for_muon(*model, {"head"});
  const ModelShapes shapes = shapes_for_muon(options);
  ASSERT_EQ(split.hidden.size(), shapes.hidden.size());
  for (size_t i = 0; i < split.hidden.size(); ++i) EXPECT_EQ(split.hidden[i].sizes().vec(), shapes.hidden[i]);
  EXPECT_EQ(split.rest.size(), shapes.all.size() - shapes.hidden.size());
  for (const Tensor& kept : {model->tokens->weight, model->positions->weight, model->head->weight}) {
    const auto same = [&](const Tensor& one) { return one.is_same(kept); };
    EXPECT_EQ(std::ranges::count_if(split.rest, same), 1) << "an embedding or the head";
  }
}

TEST(Split, ATiedParameterIsGivenOnce) {
  const auto model = std::make_shared<torch::nn::Module>();
  std::vector<std::shared_ptr<torch::nn::Module>> layers;
  for (const char* name : {"first", "second", "head"})
    layers.push_back(model->register_module(name, std::make_shared<torch::nn::Module>()));
  const Tensor hidden = layers[0]->register_parameter("weight", torch::rand({4, 4}));
  layers[1]->register_parameter("weight", hidden);
  const Tensor output = layers[1]->register_parameter("output", torch::rand({4, 4}));  // hidden by its first name
  layers[2]->register_parameter("weight", output);
  ASSERT_EQ(model->named_parameters().size(), 4U) << "LibTorch lists all names";
  const MuonSplit split = split_for_muon(*model, {"head"});
  ASSERT_EQ(split.hidden.size(), 1U);
  EXPECT_TRUE(split.hidden[0].is_same(hidden));
  ASSERT_EQ(split.rest.size(), 1U);
  EXPECT_TRUE(split.rest[0].is_same(output));
}

TEST(Split, ConvolutionsAreLeftToAdamW) {
  const ConvNet model(ConvNetOptions{.channels = 8});
  const MuonSplit split = split_for_muon(*model, {"head"});
  EXPECT_TRUE(split.hidden.empty());
  EXPECT_EQ(split.rest.size(), 6U);
  EXPECT_NO_THROW(Muon(split.hidden).step()) << "nothing to do";
}

TEST(Split, AnUnknownLayerIsRefused) {
  const Mlp model(MlpOptions{.layers = 4, .width = 8});
  EXPECT_EQ(split_for_muon(*model, {"layers.0", "layers.6"}).hidden.size(), 2U);
  EXPECT_THROW(split_for_muon(*model, {"layer"}), c10::ValueError);  // no part of a name
}

TEST(Lion, IsItsFormula) {
  const auto options = LionOptions(0.01).weight_decay(0.3).betas({0.8, 0.95});
  const Tensors parameters = some_parameters(), start = some_parameters();
  Lion optimizer(parameters, options);
  take_steps(optimizer, parameters, 8);
  Tensors exact;
  for (size_t i = 0; i < start.size(); ++i) {
    Tensor w = start[i].detach().to(torch::kDouble), m = torch::zeros_like(w);
    for (int step = 0; step < 8; ++step) {
      const Tensor g = gradient_of(start[i], step, i).to(torch::kDouble);
      w = w - 0.01 * ((0.8 * m + 0.2 * g).sign() + 0.3 * w);
      m = 0.95 * m + 0.05 * g;
    }
    exact.push_back(w);
  }
  EXPECT_LE(distance(parameters, exact, start), 1e-5);  // eight updates, rounded to 32 bits
  EXPECT_THROW(Lion(some_parameters(), LionOptions(-1)), c10::ValueError);
  EXPECT_THROW(Lion(some_parameters(), LionOptions().betas({1, 0.9})), c10::ValueError);
}

/// All three sequences of the paper, none of which is got from the others.
struct ScheduleFreeReference {
  Tensors x, y;
};
ScheduleFreeReference schedule_free_reference(const Tensors& start, int steps, double rate, int warm_up, double decay) {
  constexpr double kBeta1 = 0.9, kBeta2 = 0.99, kEpsilon = 1e-8;
  ScheduleFreeReference all;
  for (size_t i = 0; i < start.size(); ++i) {
    Tensor z = start[i].detach().to(torch::kDouble), x = z, y = z, v = torch::zeros_like(z);
    double weights = 0;
    for (int step = 1; step <= steps; ++step) {
      const double own = rate * std::min(1.0, static_cast<double>(step) / warm_up);
      const Tensor g = gradient_of(start[i], step - 1, i).to(torch::kDouble);
      v = kBeta2 * v + (1 - kBeta2) * g * g;
      z = z - own * (g / ((v / (1 - std::pow(kBeta2, step))).sqrt() + kEpsilon) + decay * y);
      weights += own * own;
      const double c = own * own / weights;
      x = (1 - c) * x + c * z;
      y = (1 - kBeta1) * z + kBeta1 * x;
    }
    all.x.push_back(x);
    all.y.push_back(y);
  }
  return all;
}

TEST(ScheduleFree, IsItsFormulaWhereItTrainsAndWhereItIsEvaluated) {
  const auto options = ScheduleFreeAdamWOptions(0.02).weight_decay(0.3).betas({0.9, 0.99}).warmup_steps(4);
  const Tensors parameters = some_parameters(), start = some_parameters();
  ScheduleFreeAdamW optimizer(parameters, options);
  take_steps(optimizer, parameters, 8);
  const ScheduleFreeReference exact = schedule_free_reference(start, 8, 0.02, 4, 0.3);
  EXPECT_LE(distance(parameters, exact.y, start), 1e-5);
  optimizer.eval();
  EXPECT_LE(distance(parameters, exact.x, start), 1e-5);
  EXPECT_GE(distance(parameters, exact.y, start), 1e-3) << "the two are not the same";
  EXPECT_THROW(optimizer.step(), c10::Error) << "a step from the mean would be another method";
  optimizer.eval();
  EXPECT_LE(distance(parameters, exact.x, start), 1e-5) << "twice is as once";
  optimizer.train();
  EXPECT_LE(distance(parameters, exact.y, start), 1e-5);
  take_steps(optimizer, parameters, 4, 8);
  EXPECT_LE(distance(parameters, schedule_free_reference(start, 12, 0.02, 4, 0.3).y, start), 1e-5);
  EXPECT_THROW(ScheduleFreeAdamW(some_parameters(), ScheduleFreeAdamWOptions().betas({0, 0.9})), c10::ValueError);
}

// --- state ----------------------------------------------------------------------------------------------------------

using MakeOptimizer = std::function<std::shared_ptr<Optimizer>(const Tensors&)>;
const std::vector<std::pair<std::string, MakeOptimizer>> kOptimizers = {
    {"Muon", [](const Tensors& all) { return std::make_shared<Muon>(all, MuonOptions(0.05)); }},
    {"Lion", [](const Tensors& all) { return std::make_shared<Lion>(all, LionOptions(0.01)); }},
    {"schedule-free", [](const Tensors& all) {
       return std::make_shared<ScheduleFreeAdamW>(all, ScheduleFreeAdamWOptions(0.01).warmup_steps(3));
     }}};

TEST(State, SavedAndLoadedATrainingGoesOnToTheBit) {
  for (const auto& [name, make] : kOptimizers) {
    const Tensors parameters = some_parameters();
    const auto optimizer = make(parameters);
    take_steps(*optimizer, parameters, 3);
    std::stringstream file;
    torch::save(*optimizer, file);
    Tensors others;
    for (const Tensor& parameter : parameters) others.push_back(parameter.detach().clone().requires_grad_());
    const auto resumed = make(others);
    resumed->param_groups()[0].options().set_lr(17);  // the saved one comes back
    torch::load(*resumed, file);
    EXPECT_EQ(resumed->param_groups()[0].options().get_lr(), optimizer->param_groups()[0].options().get_lr()) << name;
    take_steps(*optimizer, parameters, 3, 3);
    take_steps(*resumed, others, 3, 3);
    for (size_t i = 0; i < parameters.size(); ++i) EXPECT_TRUE(torch::equal(parameters[i], others[i])) << name;
  }
}

/// Bytes of an optimizer's own tensors, by the allocator.
int64_t counted_bytes(const std::function<std::vector<std::shared_ptr<Optimizer>>()>& make, const Tensors& parameters) {
  for (const Tensor& parameter : parameters) parameter.mutable_grad() = torch::zeros_like(parameter);
  const CountCpuMemory counting;
  const int64_t before = live_bytes(torch::kCPU);
  const auto optimizers = make();
  for (const auto& optimizer : optimizers) optimizer->step();
  return live_bytes(torch::kCPU) - before;
}

TEST(State, HasTheBytesOfTheFormulas) {
  const GptOptions options{.layers = 2, .width = 16, .heads = 2, .length = 8};
  const Gpt model(options);
  const Tensors all = model->parameters();
  const ModelShapes shapes = shapes_for_muon(options);
  // A block of memory may be up to 63 bytes larger than was asked for; there are at most two for each parameter.
  const auto expect = [&](int64_t counted, int64_t by_formula) {
    EXPECT_GE(counted, by_formula);
    EXPECT_LE(counted, by_formula + static_cast<int64_t>(all.size()) * 2 * 63);
  };
  const auto of = [&](const MakeOptimizer& make) { return counted_bytes([&] { return std::vector{make(all)}; }, all); };
  expect(of(kOptimizers[1].second), lion_state(shapes));
  expect(of(kOptimizers[2].second), schedule_free_state(shapes));
  expect(of([](const Tensors& p) { return std::make_shared<torch::optim::AdamW>(p); }), adamw_state(shapes));
  const MuonSplit split = split_for_muon(*model, {"head"});
  const auto both = [&]() -> std::vector<std::shared_ptr<Optimizer>> {
    return {std::make_shared<Muon>(split.hidden), std::make_shared<torch::optim::AdamW>(split.rest)};
  };
  expect(counted_bytes(both, all), muon_state(shapes));
}

TEST(Schedule, RisesAndFallsToNearlyZero) {
  EXPECT_DOUBLE_EQ(rate_part(1, 100), 0.1);
  EXPECT_DOUBLE_EQ(rate_part(10, 100), 1);
  EXPECT_DOUBLE_EQ(rate_part(100, 100), 1.0 / 91);
  EXPECT_DOUBLE_EQ(rate_part(1, 3), 1);
}

}  // namespace
}  // namespace tenfold
