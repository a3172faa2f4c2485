#include <gtest/gtest.h>

#include "common/ranks/rank_threads.h"
#include "gradient_compression.h"
#include "local_sgd.h"
#include "stale_gradients.h"
#include "surveys.h"

#include <ATen/CPUGeneratorImpl.h>

#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/support.h"

namespace {

using tenfold::DiLoCo;
using tenfold::FlatModel;
using tenfold::LocalSgd;
using tenfold::OuterSgd;
using tenfold::PowerSgd;
using tenfold::PowerSgdOptions;
using tenfold::TopK;
using torch::Tensor;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

void on_ranks(int ranks, const std::function<void(int, const Group&)>& work) {
  tenfold::on_rank_threads(ranks, std::chrono::seconds(20), work);
}

at::Generator generator_of(int64_t seed) { return at::detail::createCPUGenerator(static_cast<uint64_t>(seed)); }

struct NetImpl : torch::nn::Module {
  NetImpl() : first(5, 19), last(19, 3) {
    register_module("first", first);
    register_module("last", last);
    const torch::NoGradGuard no_grad;
    const auto generator = generator_of(1);
    for (const Tensor& parameter : parameters()) parameter.normal_(0, 0.3, generator);
  }
  Tensor forward(const Tensor& x) { return last(torch::tanh(first(x))); }
  torch::nn::Linear first, last;
};
TORCH_MODULE(Net);

constexpr int64_t kRows = 12;
constexpr int kUpdates = 6;

/// The loss of the rows that a rank has of an update's batch.
Tensor loss_of(Net& net, int update, int rank, int ranks) {
  const auto generator = generator_of(100 + update);
  const Tensor x = torch::randn({kRows, 5}, generator), y = torch::randn({kRows, 3}, generator);
  return torch::mse_loss(net(x.chunk(ranks)[rank]), y.chunk(ranks)[rank]);
}

torch::optim::SGD sgd_of(const Net& net) {
  return torch::optim::SGD(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
}

/// What one process makes of the whole batches.
Tensor trained_alone() {
  Net net;
  const FlatModel flat = tenfold::flat_model(net->parameters());
  auto optimizer = sgd_of(net);
  for (int update = 0; update < kUpdates; ++update) {
    flat.gradients.zero_();
    loss_of(net, update, 0, 1).backward();
    optimizer.step();
  }
  return flat.values.clone();
}

/// What happens to a rank's gradients before the update (false: there is none) and to its parameters after it.
struct Exchange {
  std::function<bool(const Tensor& gradients)> before = [](const Tensor&) { return true; };
  std::function<void()> after = [] {};
};
using MakeExchange = std::function<Exchange(const Net&, const FlatModel&, const Group&)>;

/// Each rank's parameters at the end.
std::vector<Tensor> trained_together(int ranks, const MakeExchange& make) {
  std::vector<Tensor> of_ranks(static_cast<size_t>(ranks));
  on_ranks(ranks, [&](int rank, const Group& group) {
    Net net;
    const FlatModel flat = tenfold::flat_model(net->parameters());
    auto optimizer = sgd_of(net);
    const Exchange exchange = make(net, flat, group);
    for (int update = 0; update < kUpdates; ++update) {
      flat.gradients.zero_();
      loss_of(net, update, rank, ranks).backward();
      if (exchange.before(flat.gradients)) optimizer.step();
      exchange.after();
    }
    of_ranks[static_cast<size_t>(rank)] = flat.values.clone();
  });
  return of_ranks;
}

double difference(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

/// Equal on all ranks, bit for bit, and within the tolerance what one process makes.
void expect_as_alone(const MakeExchange& make, double tolerance) {
  const Tensor alone = trained_alone();
  const Net untrained;
  EXPECT_GT(difference(alone, tenfold::flat_model(untrained->parameters()).values), 1e-2)
      << "nothing was trained, so nothing was compared";
  for (const int ranks : {2, 3}) {
    const std::vector<Tensor> together = trained_together(ranks, make);
    for (const Tensor& rank : together) EXPECT_TRUE(torch::equal(rank, together[0]));
    EXPECT_LT(difference(together[0], alone), tolerance) << ranks << " ranks";
  }
}

// Sums of floats in another order differ by some 1e-7 of values below 1; a few updates add that up.
constexpr double kTolerance = 1e-5;

TEST(LocalSgd, WithOneInnerUpdateOfSgdItIsDataParallelTraining) {
  expect_as_alone(
      [](const Net&, const FlatModel& flat, const Group& group) {
        auto local = std::make_shared<LocalSgd>(flat.values, group, 1);
        return Exchange{.after = [local] { EXPECT_TRUE(local->after_update()); }};
      },
      kTolerance);
}

TEST(LocalSgd, RanksDifferWithinARoundAndAreTheMeanAfterIt) {
  std::vector<Tensor> before(3), after(3);
  on_ranks(3, [&](int rank, const Group& group) {
    const Tensor values = torch::zeros({5});
    LocalSgd local(values, group, 2);
    for (int update = 0; update < 2; ++update) {
      values.add_(rank + 1);
      if (update == 1) before[static_cast<size_t>(rank)] = values.clone();
      EXPECT_EQ(local.after_update(), update == 1);
    }
    after[static_cast<size_t>(rank)] = values;
  });
  EXPECT_FALSE(torch::equal(before[0], before[1]));
  for (const Tensor& rank : after) EXPECT_TRUE(torch::allclose(rank, torch::full({5}, 4.0)));
}

MakeExchange by_diloco(const OuterSgd& outer, int64_t inner_updates = 2) {
  return [=](const Net&, const FlatModel& flat, const Group& group) {
    auto averaging = std::make_shared<DiLoCo>(flat.values, group, inner_updates, outer);
    return Exchange{.after = [averaging] { averaging->after_update(); }};
  };
}

TEST(DiLoCo, WithAnOuterRateOfOneAndNoMomentumItAverages) {
  const auto averaged = trained_together(2, [](const Net&, const FlatModel& flat, const Group& group) {
    auto local = std::make_shared<LocalSgd>(flat.values, group, 2);
    return Exchange{.after = [local] { local->after_update(); }};
  });
  const auto stepped = trained_together(2, by_diloco({.learning_rate = 1, .momentum = 0}));
  EXPECT_LT(difference(stepped[0], averaged[0]), kTolerance);
  expect_as_alone(by_diloco({.learning_rate = 1, .momentum = 0}, 1), kTolerance);
}

// torch.optim.SGD has Nesterov's momentum, too: an outer step is its step of start - mean.
TEST(DiLoCo, TheOuterStepIsNesterovsOfLibTorch) {
  const Tensor start = torch::arange(1, 6, torch::kFloat);
  Tensor reference = start.clone().requires_grad_();
  torch::optim::SGD nesterov({reference}, torch::optim::SGDOptions(0.7).momentum(0.9).nesterov(true));
  on_ranks(2, [&](int rank, const Group& group) {
    const Tensor values = start.clone();
    DiLoCo diloco(values, group, 1, {.learning_rate = 0.7, .momentum = 0.9});
    for (int round = 0; round < 3; ++round) {
      const Tensor before = values.clone();
      values.add_(torch::sin(values) * (rank + 1));  // what a rank's updates come to; 1.5 times the sine on average
      if (rank == 0) {
        reference.mutable_grad() = before - (before + 1.5 * torch::sin(before));
        nesterov.step();
      }
      diloco.after_update();
      if (rank == 0) EXPECT_LT(difference(values, reference.detach()), kTolerance) << "round " << round;
    }
  });
}

TEST(DiLoCo, RanksAreEqualAfterEveryRound) {
  const std::vector<Tensor> together = trained_together(3, by_diloco({}, 3));
  for (const Tensor& rank : together) EXPECT_TRUE(torch::equal(rank, together[0]));
}

MakeExchange by_power_sgd(const PowerSgdOptions& options) {
  return [=](const Net& net, const FlatModel&, const Group& group) {
    auto power = std::make_shared<PowerSgd>(net->parameters(), group, options);
    return Exchange{.before = [power](const Tensor& gradients) {
      power->mean(gradients);
      return true;
    }};
  };
}

// A projection onto all columns multiplies twice more, with rounded factors.
TEST(PowerSgd, OfFullRankIsDataParallelTraining) {
  for (const bool feedback : {false, true})
    expect_as_alone(by_power_sgd({.rank = 100, .error_feedback = feedback, .least_saving = 0}), 10 * kTolerance);
}

TEST(TopK, OfAllValuesIsDataParallelTraining) {
  for (const bool feedback : {false, true}) {
    expect_as_alone(
        [&](const Net&, const FlatModel&, const Group& group) {
          auto top = std::make_shared<TopK>(group, tenfold::TopKOptions{.share = 1, .error_feedback = feedback});
          return Exchange{.before = [top](const Tensor& gradients) {
            top->mean(gradients);
            return true;
          }};
        },
        kTolerance);
  }
}

// Half the sum's error of bf16, which has 8 bits: 2^-9 of a gradient, on each rank and in each sum.
TEST(Bf16, IsTheMeanWithinItsBits) {
  on_ranks(2, [](int rank, const Group& group) {
    const Tensor gradients = torch::randn({1000}, generator_of(rank));
    const Tensor exact = (torch::randn({1000}, generator_of(0)) + torch::randn({1000}, generator_of(1))) / 2;
    tenfold::mean_in_bf16(gradients, group);
    EXPECT_LT(difference(gradients, exact), 3 * 4.0 / 512);
    EXPECT_GT(difference(gradients, exact), 0) << "nothing was rounded";
  });
}

// What all calls left in the gradients, with the mean of what the ranks keep, is the mean of all that came in.
TEST(ErrorFeedback, TopKSendsOrKeepsEveryGradient) {
  on_ranks(3, [](int rank, const Group& group) {
    TopK top(group, {.share = 0.1});
    Tensor came = torch::zeros({200}), sent = torch::zeros({200});
    for (int update = 0; update < 8; ++update) {
      const Tensor gradients = torch::randn({200}, generator_of(10 * update + rank));
      came += gradients;
      top.mean(gradients);
      sent += gradients;
      // 3 ranks choose 20 places each.
      EXPECT_LE(gradients.count_nonzero().item<int64_t>(), 3 * 20);
      EXPECT_EQ((top.kept() != 0).sum().item<int64_t>(), 180);
    }
    Tensor kept = top.kept().clone();
    tenfold::mean_over_ranks(came, group);
    tenfold::mean_over_ranks(kept, group);
    EXPECT_LT(difference(sent + kept, came), kTolerance);
    EXPECT_GT(difference(sent, came), 0.1) << "nothing was kept";
  });
}

TEST(ErrorFeedback, PowerSgdSendsOrKeepsEveryGradient) {
  on_ranks(3, [](int rank, const Group& group) {
    const std::vector<Tensor> parameters = {torch::zeros({30, 20}), torch::zeros({7})};
    PowerSgd power(parameters, group, {.rank = 2});
    Tensor came = torch::zeros({607}), sent = torch::zeros({607});
    for (int update = 0; update < 8; ++update) {
      const Tensor gradients = torch::randn({607}, generator_of(10 * update + rank));
      came += gradients;
      power.mean(gradients);
      sent += gradients;
      // Zero but for rounding, of values up to some 5.
      const Tensor singular = torch::linalg_svdvals(gradients.narrow(0, 0, 600).view({30, 20}));
      EXPECT_LT(singular[2].item<double>(), 1e-4) << "of rank 2";
      EXPECT_GT(singular[1].item<double>(), 0.1);
    }
    Tensor kept = power.kept().clone();
    tenfold::mean_over_ranks(came, group);
    tenfold::mean_over_ranks(kept, group);
    sent.narrow(0, 0, 600).add_(kept);
    EXPECT_LT(difference(sent, came), 10 * kTolerance) << "the vector, too, which is never compressed";
  });
}

// The same gradient again and again: with a warm start the iteration finds its largest singular values.
TEST(PowerSgd, AWarmStartFindsTheNearestMatrix) {
  const Tensor matrix = torch::randn({30, 20}, generator_of(5));
  const auto [u, s, v] = torch::linalg_svd(matrix, /*full_matrices=*/false);
  const double least = s.narrow(0, 2, 18).norm().item<double>();  // what a matrix of rank 2 must be off by
  const auto error_with = [&](bool warm_start) {
    PowerSgd power({torch::zeros({30, 20})}, nullptr, {.rank = 2, .error_feedback = false, .warm_start = warm_start});
    Tensor gradients;
    for (int update = 0; update < 60; ++update) {
      gradients = matrix.flatten().clone();
      power.mean(gradients);
    }
    return (gradients.view({30, 20}) - matrix).norm().item<double>();
  };
  EXPECT_NEAR(error_with(true), least, 0.01 * least);
  EXPECT_GT(error_with(false), 1.02 * least);
}

// A gradient of zeros, or of a lower rank, leaves columns of zeros; they must not stay so.
TEST(PowerSgd, ComesBackAfterAGradientOfLowerRank) {
  const Tensor matrix = torch::randn({12, 2}, generator_of(5)).mm(torch::randn({2, 10}, generator_of(6)));  // rank 2
  const Tensor of_rank_one = matrix.select(1, 0).unsqueeze(1).mm(torch::ones({1, 10}));
  for (const Tensor& first : {torch::zeros({12, 10}), of_rank_one}) {
    PowerSgd power({torch::zeros({12, 10})}, nullptr, {.rank = 2, .error_feedback = false});
    Tensor gradients = first.flatten().clone();
    power.mean(gradients);
    for (int update = 0; update < 2; ++update) {  // in the first the columns that were zero begin anew
      gradients = matrix.flatten().clone();
      power.mean(gradients);
    }
    // A matrix of rank 2 is sent whole by two columns, but for rounding.
    EXPECT_LT(difference(gradients.view({12, 10}), matrix), 1e-4 * matrix.abs().max().item<double>());
  }
}

// fp16 with a loss scale overflows now and then; the update is skipped, and the next ones must be as before.
TEST(PowerSgd, AndTopKComeBackAfterAnOverflow) {
  const Tensor matrix = torch::randn({12, 2}, generator_of(5)).mm(torch::randn({2, 10}, generator_of(6)));  // rank 2
  PowerSgd power({torch::zeros({12, 10})}, nullptr, {.rank = 2});
  tenfold::TopK top(nullptr, {.share = 0.5});
  const auto update = [&](const Tensor& gradient) {
    Tensor by_power = gradient.flatten().clone(), by_top = gradient.flatten().clone();
    power.mean(by_power), top.mean(by_top);
    return std::pair(by_power.view({12, 10}), by_top.view({12, 10}));
  };
  update(matrix);
  Tensor overflowed = matrix.clone();
  overflowed[3][4] = std::numeric_limits<float>::infinity();
  const auto [of_power, of_top] = update(overflowed);
  EXPECT_FALSE(of_power.isfinite().all().item<bool>()) << "a scaler must see it";
  EXPECT_FALSE(of_top.isfinite().all().item<bool>());
  for (int i = 0; i < 3; ++i) {
    const auto [power_again, top_again] = update(matrix);
    EXPECT_TRUE(power_again.isfinite().all().item<bool>()) << i;
    EXPECT_TRUE(top_again.isfinite().all().item<bool>()) << i;
  }
  EXPECT_TRUE(power.kept().isfinite().all().item<bool>());
}

TEST(PowerSgd, AColumnThatTheOnesBeforeSpanBecomesZero) {
  Tensor matrix = torch::randn({200, 2}, generator_of(3));
  matrix.select(1, 1).copy_(3 * matrix.select(1, 0));  // rounding must not be made a column of its own
  tenfold::orthogonalise(matrix.unsqueeze(0));
  EXPECT_EQ(matrix.select(1, 1).abs().max().item<float>(), 0);
}

TEST(PowerSgd, ColumnsAreOrthogonalEvenIfTheMatrixIsNot) {
  Tensor matrix = torch::randn({20, 4}, generator_of(3));
  matrix.select(1, 2).copy_(2 * matrix.select(1, 0) + 1e-4 * matrix.select(1, 2));  // nearly the first
  matrix.select(1, 3).zero_();
  tenfold::orthogonalise(matrix.unsqueeze(0));
  const Tensor products = matrix.t().mm(matrix);
  Tensor expected = torch::eye(4);
  expected[3][3] = 0;
  EXPECT_LT(difference(products, expected), kTolerance);
}

// As the gradient of an embedding of which few rows were used: 5 columns in 3 dimensions. Rounding must not be taken
// for two more.
TEST(PowerSgd, NoMoreColumnsThanThereAreDimensions) {
  Tensor matrix = torch::zeros({20, 5});
  matrix.narrow(0, 4, 3).copy_(torch::randn({3, 5}, generator_of(3)));
  tenfold::orthogonalise(matrix.unsqueeze(0));
  Tensor expected = torch::zeros({20, 20});
  for (int64_t i = 4; i < 7; ++i) expected[i][i] = 1;
  EXPECT_LT(difference(matrix.mm(matrix.t()), expected), kTolerance) << "a projection onto these rows";
}

// They lie together and are made orthogonal in one batch; each must come out as alone.
TEST(PowerSgd, MatricesOfOneHeightAreAsEachAlone) {
  const std::vector<Tensor> matrices = {torch::randn({8, 12}, generator_of(1)), torch::randn({6, 8}, generator_of(2)),
                                        torch::randn({8, 16}, generator_of(3))};
  const auto compressed = [](const std::vector<Tensor>& parameters) {
    PowerSgd power(parameters, nullptr, {.rank = 2, .error_feedback = false});
    std::vector<Tensor> flat;
    for (const Tensor& parameter : parameters) flat.push_back(parameter.flatten());
    const Tensor gradients = torch::cat(flat);
    // Each update goes on from the one before: wherever it began, an update ends at the two largest singular values.
    for (int update = 0; update < 200; ++update) {
      gradients.copy_(torch::cat(flat));
      power.mean(gradients);
    }
    return gradients;
  };
  const Tensor together = compressed(matrices);
  int64_t at = 0;
  for (const Tensor& matrix : matrices) {
    EXPECT_LT(difference(together.narrow(0, at, matrix.numel()), compressed({matrix})), 1e-3);
    at += matrix.numel();
  }
}

TEST(StaleMean, GivesTheMeanOfTheUpdateBefore) {
  on_ranks(2, [](int rank, const Group& group) {
    tenfold::StaleMean stale(group);
    for (int update = 0; update < 4; ++update) {
      const Tensor gradients = torch::full({3}, static_cast<float>(10 * update + rank));
      EXPECT_EQ(stale.exchange(gradients), update > 0);
      if (update > 0) EXPECT_TRUE(torch::equal(gradients, torch::full({3}, 10 * (update - 1) + 0.5F)));
    }
  });
}

TEST(LocalUpdates, OneRankNeedsNoGroup) {
  const Tensor values = torch::ones({4});
  LocalSgd local(values, nullptr, 1);
  EXPECT_TRUE(local.after_update());
  DiLoCo diloco(values, nullptr, 1, {.learning_rate = 1, .momentum = 0});
  values.add_(1);
  diloco.after_update();
  EXPECT_TRUE(torch::equal(values, torch::full({4}, 2.0F)));
  TopK top(nullptr, {.share = 0.25});
  const Tensor gradients = torch::tensor({1.0F, -3.0F, 2.0F, 0.5F});
  top.mean(gradients);
  EXPECT_TRUE(torch::equal(gradients, torch::tensor({0.0F, -3.0F, 0.0F, 0.0F})));
  EXPECT_TRUE(torch::equal(top.kept(), torch::tensor({1.0F, 0.0F, 2.0F, 0.5F})));
}

TEST(LocalUpdates, SaysWhatIsWrong) {
  EXPECT_THROW(LocalSgd(torch::zeros({1}), nullptr, 0), c10::ValueError);
  EXPECT_THROW(TopK(nullptr, {.share = 0}), c10::ValueError);
  EXPECT_THROW(PowerSgd({torch::zeros({2, 2})}, nullptr, {.rank = 0}), c10::ValueError);
  EXPECT_THROW(tenfold::flat_model({}), c10::ValueError);
  EXPECT_THROW(tenfold::flat_model({torch::zeros({2}), torch::zeros({2}, torch::kDouble)}), c10::ValueError);
}

TEST(FlatModel, PartsBeginAtAlignedAddressesAndATiedParameterLiesOnce) {
  Net net;  // of 95, 19, 57 and 3 values
  std::vector<Tensor> parameters = net->parameters(), before;
  parameters.push_back(net->first->weight);
  for (const Tensor& parameter : parameters) before.push_back(parameter.detach().clone());
  const FlatModel flat = tenfold::flat_model(parameters);
  EXPECT_EQ(tenfold::flat_begins(parameters), (std::vector<int64_t>{0, 96, 116, 176, 0, 180}));
  EXPECT_EQ(flat.values.numel(), 180);
  EXPECT_EQ(flat.values[95].item<float>(), 0) << "a gap";
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(torch::equal(parameters[i], before[i]));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(parameters[i].const_data_ptr()) % 16, 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(parameters[i].grad().const_data_ptr()) % 16, 0);
  }
  PowerSgd power(parameters, nullptr, {.rank = 2});
  EXPECT_EQ(power.kept().numel(), 95 + 57) << "two names, one gradient";
  loss_of(net, 0, 0, 1).backward();
  const Tensor bias = net->first->bias.grad().clone();
  power.mean(flat.gradients);
  EXPECT_TRUE(torch::equal(net->first->bias.grad(), bias)) << "a vector is sent as it is";
}

// LibTorch's zero_grad() drops gradients: the next exchange would average zeros, and each rank step by its own.
TEST(FlatModel, RefusesAFrozenParameter) {
  Net net;
  net->first->weight.requires_grad_(false);
  EXPECT_THROW(tenfold::flat_model(net->parameters()), c10::ValueError);
}

TEST(FlatModel, AGradientOrAParameterThatLeftItIsFound) {
  Net net;
  auto optimizer = sgd_of(net);
  const FlatModel flat = tenfold::flat_model(net->parameters());
  optimizer.zero_grad(/*set_to_none=*/false);
  loss_of(net, 0, 0, 1).backward();
  EXPECT_NO_THROW(tenfold::require_attached(flat, net->parameters()));
  optimizer.zero_grad();
  EXPECT_THROW(tenfold::require_attached(flat, net->parameters()), c10::Error);
  loss_of(net, 0, 0, 1).backward();
  EXPECT_THROW(tenfold::require_attached(flat, net->parameters()), c10::Error);
  const FlatModel again = tenfold::flat_model(net->parameters());
  EXPECT_NO_THROW(tenfold::require_attached(again, net->parameters()));
  net->to(torch::kDouble);
  EXPECT_THROW(tenfold::require_attached(again, net->parameters()), c10::Error);
}

// What the survey publishes. Of an odd number of bytes a ring's parts need not be whole.
TEST(LocalUpdates, BytesAskedAreTheFormulas) {
  const auto record = std::make_shared<tenfold::TrialRecord>();
  for (const auto& assignment : tenfold::sent_settings()) record->given[assignment.name] = assignment.value.cpu;
  const tenfold::Trial trial(record);
  const tenfold::Shapes shapes = tenfold::gpt_shapes(tenfold::gpt_options(trial));
  const auto rounds = trial.get(tenfold::kInnerUpdates);
  for (const tenfold::Way& way : tenfold::ways()) {
    for (const int ranks : {1, 2, 3, 4}) {
      const tenfold::AskedBytes asked = tenfold::asked_in_round(trial, way, ranks);
      const tenfold::AskedBytes formula = way.formula(trial, shapes, ranks);
      EXPECT_NEAR(static_cast<double>(asked.all_reduce), static_cast<double>(rounds * formula.all_reduce), 8)
          << way.name << ", " << ranks << " ranks";
      EXPECT_EQ(asked.all_gather, rounds * formula.all_gather) << way.name << ", " << ranks << " ranks";
    }
  }
}

}  // namespace
