#include <gtest/gtest.h>

#include "common/ranks/counted_backend.h"
#include "common/ranks/rank_threads.h"
#include "lessons/21_mixed_precision/autocast.h"
#include "lessons/31_activation_checkpointing/checkpoint.h"
#include "sharded_checkpoint.h"
#include "state_bytes.h"
#include "surveys.h"
#include "zero.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/forgetful.h"
#include "tests/support/support.h"

namespace {

using tenfold::GroupPointer;
using tenfold::ShardedDataParallel;
using tenfold::ZeroOptions;
using torch::Tensor;

void on_ranks(int ranks, const std::function<void(int, const GroupPointer&)>& work) {
  tenfold::on_rank_threads(ranks, std::chrono::seconds(20), work);
}

/// Three layers that are a unit each; no number of values in them can be divided by 2 and by 3.
struct NetImpl : torch::nn::Module {
  NetImpl() : first(5, 19), wide(19, 16), last(16, 3) {
    register_module("first", first);
    register_module("wide", wide);
    register_module("last", last);
  }
  Tensor forward(const Tensor& x) { return last(torch::tanh(wide(torch::tanh(first(x))))); }
  torch::nn::Linear first, wide, last;
};
TORCH_MODULE(Net);

const std::vector<ShardedDataParallel::UnitNames> kUnits = {{"first"}, {"wide"}, {"last"}};

Net net_with(uint64_t seed) {
  Net net;
  const torch::NoGradGuard no_grad;
  const auto generator = at::detail::createCPUGenerator(seed);
  for (const Tensor& parameter : net->parameters()) parameter.normal_(0, 0.3, generator);
  return net;
}

Tensor forward(NetImpl& net, ShardedDataParallel& sharded, const Tensor& x) {
  Tensor h = sharded.forward(0, x, [&](const Tensor& y) { return torch::tanh(net.first(y)); });
  h = sharded.forward(1, h, [&](const Tensor& y) { return torch::tanh(net.wide(y)); });
  return sharded.forward(2, h, [&](const Tensor& y) { return net.last(y); });
}

torch::optim::AdamWOptions adamw() { return torch::optim::AdamWOptions(1e-2).eps(1e-4).weight_decay(1e-2); }

constexpr int64_t kRows = 12;

std::pair<Tensor, Tensor> global_batch(int step) {
  const auto generator = at::detail::createCPUGenerator(100 + static_cast<uint64_t>(step));
  return {torch::randn({kRows, 5}, generator), torch::randn({kRows, 3}, generator)};
}

struct Training {
  int steps = 4, first_step = 0, micro_batches = 1;
  double max_norm = 0;
  bool frozen = false;  // the layer between
};

void freeze(Net& net, const Training& how) {
  for (Tensor& parameter : net->wide->parameters()) parameter.requires_grad_(!how.frozen);
}

/// What one process makes of the global batches.
std::vector<Tensor> trained_alone(const Training& how) {
  Net net = net_with(1);
  freeze(net, how);
  std::vector<Tensor> parameters = net->parameters();
  std::erase_if(parameters, [](const Tensor& parameter) { return !parameter.requires_grad(); });
  torch::optim::AdamW optimizer(parameters, adamw());
  for (int step = 0; step < how.steps; ++step) {
    const auto [x, y] = global_batch(how.first_step + step);
    optimizer.zero_grad();
    torch::mse_loss(net(x), y).backward();
    if (how.max_norm > 0) torch::nn::utils::clip_grad_norm_(parameters, how.max_norm);
    optimizer.step();
  }
  return net->parameters();
}

void train(NetImpl& net, ShardedDataParallel& sharded, torch::optim::AdamW& optimizer, const Training& how, int rank,
           int ranks) {
  for (int step = 0; step < how.steps; ++step) {
    const auto [x, y] = global_batch(how.first_step + step);
    const auto xs = x.chunk(ranks)[rank].chunk(how.micro_batches), ys = y.chunk(ranks)[rank].chunk(how.micro_batches);
    sharded.zero_grad();
    for (int i = 0; i < how.micro_batches; ++i)
      (torch::mse_loss(forward(net, sharded, xs[i]).to(torch::kFloat), ys[i]) / how.micro_batches).backward();
    sharded.finish();
    if (how.max_norm > 0) sharded.clip_gradients(how.max_norm);
    optimizer.step();
    sharded.gather_updated();
  }
}

/// The whole parameters of each rank. Each starts elsewhere: rank 0's values must have come to all.
std::vector<std::vector<Tensor>> trained_together(int ranks, const ZeroOptions& options, const Training& how) {
  std::vector<std::vector<Tensor>> of_ranks(static_cast<size_t>(ranks));
  on_ranks(ranks, [&](int rank, const GroupPointer& group) {
    Net net = net_with(static_cast<uint64_t>(rank) + 1);
    freeze(net, how);
    ShardedDataParallel sharded(*net, kUnits, group, options);
    torch::optim::AdamW optimizer(sharded.shards(), adamw());
    train(*net, sharded, optimizer, how, rank, ranks);
    of_ranks[static_cast<size_t>(rank)] = sharded.whole().parameters.values();
  });
  return of_ranks;
}

double largest_difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    largest = std::max(largest, (a[i] - b[i]).abs().max().item<double>());
  return largest;
}

const ZeroOptions kAllOptions[] = {{.stage = 1},
                                   {.stage = 2},
                                   {.stage = 3},
                                   {.stage = 3, .reshard_after_forward = false},
                                   {.stage = 3, .prefetch = false},
                                   {.stage = 3, .keep_frozen = true}};

const ZeroOptions kIn16Bits{.stage = 3, .gathered_as = torch::kBFloat16};

// Sums of floats in another order differ by some 1e-7; AdamW divides them by at least 1e-4 and moves by 1e-2 of that.
constexpr double kTolerance = 3e-5;

void expect_as_alone(const Training& how) {
  const std::vector<Tensor> alone = trained_alone(how);
  EXPECT_GT(largest_difference(alone, net_with(1)->parameters()), 1e-2)
      << "nothing was trained, so nothing was compared";
  for (const int ranks : {2, 3}) {
    for (const ZeroOptions& options : kAllOptions) {
      const auto together = trained_together(ranks, options, how);
      EXPECT_LT(largest_difference(together[0], alone), kTolerance) << ranks << " ranks, stage " << options.stage;
      for (const auto& rank : together) EXPECT_EQ(largest_difference(rank, together[0]), 0);
    }
  }
}

TEST(Zero, EveryStageEqualsOneProcessOnTheGlobalBatch) { expect_as_alone({}); }
TEST(Zero, SoDoMicroBatchesWithClippedGradients) { expect_as_alone({.micro_batches = 2, .max_norm = 0.05}); }
TEST(Zero, SoDoesAFrozenUnitBetweenOthers) {
  expect_as_alone({.frozen = true});
  EXPECT_EQ(largest_difference({trained_alone({.frozen = true})[2]}, {net_with(1)->parameters()[2]}), 0);
}

TEST(Zero, OneRankNeedsNoGroup) {
  for (const ZeroOptions& options : kAllOptions) {
    Net net = net_with(1);
    ShardedDataParallel sharded(*net, kUnits, nullptr, options);
    torch::optim::AdamW optimizer(sharded.shards(), adamw());
    train(*net, sharded, optimizer, {}, 0, 1);
    EXPECT_LT(largest_difference(sharded.whole().parameters.values(), trained_alone({})), kTolerance);
  }
}

TEST(Zero, WholeGradientsAreTheMeanAndUndefinedBefore) {
  const auto [x, y] = global_batch(0);
  Net alone = net_with(1);
  torch::mse_loss(alone(x), y).backward();
  for (const ZeroOptions& options : kAllOptions) {
    on_ranks(2, [&, x = x, y = y](int rank, const GroupPointer& group) {
      Net net = net_with(1);
      ShardedDataParallel sharded(*net, kUnits, group, options);
      EXPECT_FALSE(sharded.whole().gradients["wide.bias"].defined());
      torch::mse_loss(forward(*net, sharded, x.chunk(2)[rank]), y.chunk(2)[rank]).backward();
      sharded.finish();
      const auto gradients = sharded.whole().gradients;
      for (const auto& item : alone->named_parameters())
        EXPECT_TRUE(torch::allclose(gradients[item.key()], item.value().grad(), 1e-5, 1e-7)) << item.key();
    });
  }
}

TEST(Zero, NothingWholeStaysAliveNextToTheShards) {
  on_ranks(2, [](int rank, const GroupPointer& group) {
    Net net = net_with(1);
    ShardedDataParallel sharded(*net, kUnits, group, {.stage = 3});
    const auto [x, y] = global_batch(0);
    const Tensor loss = torch::mse_loss(forward(*net, sharded, x.chunk(2)[rank]), y.chunk(2)[rank]);
    // The last unit's backward comes next.
    for (const auto& parameter : net->named_parameters())
      EXPECT_EQ(parameter.value().storage().nbytes() > 0, parameter.key().starts_with("last")) << parameter.key();
    loss.backward();
    sharded.finish();
    for (const Tensor& parameter : net->parameters()) {
      EXPECT_EQ(parameter.storage().nbytes(), 0u);
      EXPECT_FALSE(parameter.grad().defined());
    }
    for (const Tensor& shard : sharded.shards()) EXPECT_EQ(shard.sizes(), shard.grad().sizes());
  });
}

// What the surveys publish, on more ranks than two. Counted bytes are more than the formula's by what the allocator
// rounds up, which is less than 32 bytes for each tensor, and by what the store of the ranks' addresses keeps.
TEST(Zero, BytesAliveAndBytesAskedAreTheFormulas) {
  const tenfold::GptOptions options{.layers = 2, .width = 70, .heads = 2, .length = 17};
  constexpr int64_t kTensors = 4 * 29;  // of data parallel training
  tenfold::fix_malloc_thresholds();     // or large blocks would be rounded up to pages
  for (const int ranks : {1, 2, 3, 4, 8}) {
    const tenfold::Sharded sizes(tenfold::unit_sizes(options), ranks);
    for (const ZeroOptions& zero : {ZeroOptions{.stage = 0}, ZeroOptions{.stage = 1}, ZeroOptions{.stage = 2},
                                    ZeroOptions{.stage = 3}, kIn16Bits}) {
      const std::string on = "stage " + std::to_string(zero.stage) + ", " + std::to_string(ranks) + " ranks";
      const auto counts = tenfold::count_update(options, ranks, zero);
      const int64_t formula = tenfold::state_bytes(sizes, zero.stage);
      EXPECT_GE(counts.alive_bytes, formula) << on;
      EXPECT_LT(counts.alive_bytes, formula + 32 * kTensors) << on;
      // A ring's parts need not be whole bytes where nothing is filled up.
      EXPECT_NEAR(static_cast<double>(tenfold::sent_bytes_of(counts.asked, ranks)),
                  static_cast<double>(tenfold::ring_bytes_of(sizes, zero.stage, zero.gathered_as ? 2 : 4)), ranks)
          << on;
    }
  }
}

TEST(Zero, FormulasAreThoseOfThePaperWhereEverythingDivides) {
  const tenfold::Sharded on_4({{6400}, {64}}, 4);
  const int64_t values = 6464;
  EXPECT_EQ(tenfold::state_bytes(on_4, 0), 16 * values);
  EXPECT_EQ(tenfold::state_bytes(on_4, 1), 10 * values);
  EXPECT_EQ(tenfold::state_bytes(on_4, 2), 7 * values);
  EXPECT_EQ(tenfold::state_bytes(on_4, 3), 4 * values);
  EXPECT_EQ(tenfold::ring_bytes_of(on_4, 2), tenfold::ring_bytes_of(on_4, 0));
  // The last unit's parameters stay from forward to backward: 16 of its 64 values on each rank, from 3 others.
  const int64_t stays = 3 * 16;
  EXPECT_EQ(2 * (tenfold::ring_bytes_of(on_4, 3) + 4 * stays), 3 * tenfold::ring_bytes_of(on_4, 0));
  // Two gathers in 16 bits are as much as one in 32.
  EXPECT_EQ(tenfold::ring_bytes_of(on_4, 3, 2) + 2 * stays, tenfold::ring_bytes_of(on_4, 0));
}

/// What one process makes of the global batches with 16-bit copies of its weights: the micro-batches' gradients are
/// added in 32 bits, and so is the update made.
std::vector<Tensor> trained_alone_in_16_bits(const Training& how, int ranks, torch::ScalarType type) {
  Net net = net_with(1);
  freeze(net, how);
  std::vector<Tensor> masters, trainable;
  for (const Tensor& parameter : net->parameters()) {
    masters.push_back(parameter.detach().clone().requires_grad_(parameter.requires_grad()));
    if (parameter.requires_grad()) trainable.push_back(masters.back());
  }
  net->to(type);
  torch::optim::AdamW optimizer(trainable, adamw());
  for (int step = 0; step < how.steps; ++step) {
    const auto [x, y] = global_batch(how.first_step + step);
    const int parts = ranks * how.micro_batches;
    const auto xs = x.chunk(parts), ys = y.chunk(parts);
    optimizer.zero_grad();
    for (size_t i = 0; i < masters.size(); ++i) {
      const torch::NoGradGuard no_grad;
      net->parameters()[i].copy_(masters[i]);
    }
    for (int part = 0; part < parts; ++part) {
      (torch::mse_loss(net(xs[part].to(type)).to(torch::kFloat), ys[part]) / how.micro_batches).backward();
      for (size_t i = 0; i < masters.size(); ++i) {
        Tensor& gradient = net->parameters()[i].mutable_grad();
        if (!gradient.defined()) continue;
        const Tensor in_32 = gradient.to(torch::kFloat) / ranks;
        masters[i].mutable_grad() = masters[i].grad().defined() ? masters[i].grad() + in_32 : in_32;
        gradient = Tensor();
      }
    }
    if (how.max_norm > 0) torch::nn::utils::clip_grad_norm_(trainable, how.max_norm);
    optimizer.step();
  }
  return masters;
}

TEST(ZeroIn16Bits, EqualsOneProcessThatComputesWith16BitCopiesOfItsWeights) {
  const auto check = [](int ranks, ZeroOptions options, const Training& how, torch::ScalarType type) {
    options.gathered_as = type;
    const auto alone = trained_alone_in_16_bits(how, ranks, type);
    EXPECT_GT(largest_difference(alone, trained_alone(how)), 3 * kTolerance) << "32 bits would pass";
    for (const auto& together : trained_together(ranks, options, how))
      EXPECT_LT(largest_difference(together, alone), kTolerance) << ranks << " ranks";
  };
  for (const Training& how : {Training{}, Training{.micro_batches = 2, .max_norm = 0.05}, Training{.frozen = true}}) {
    check(1, {}, how, torch::kBFloat16);
    for (const ZeroOptions& options : kAllOptions) {
      if (options.stage == 3) check(2, options, how, torch::kBFloat16);
    }
    check(3, {}, how, torch::kBFloat16);
  }
  check(2, {}, {}, torch::kHalf);
}

TEST(ZeroIn16Bits, ParametersHave16BitsAndAllThatRestsHas32) {
  on_ranks(2, [](int rank, const GroupPointer& group) {
    Net net = net_with(1);
    ShardedDataParallel sharded(*net, kUnits, group, kIn16Bits);
    const auto [x, y] = global_batch(0);
    Tensor seen;
    sharded.forward(0, x, [&](const Tensor& in) { return seen = net->first(in); });
    EXPECT_EQ(seen.scalar_type(), torch::kBFloat16);
    torch::mse_loss(forward(*net, sharded, x.chunk(2)[rank]).to(torch::kFloat), y.chunk(2)[rank]).backward();
    sharded.finish();
    for (const Tensor& shard : sharded.shards()) {
      EXPECT_EQ(shard.scalar_type(), torch::kFloat);
      EXPECT_EQ(shard.grad().scalar_type(), torch::kFloat);
    }
    for (const Tensor& parameter : net->parameters()) EXPECT_EQ(parameter.storage().nbytes(), 0U);
  });
}

// The advice against a weight's 16-bit copies, which releasing a unit does not free.
TEST(ZeroIn16Bits, ForwardKeepsNoCopiesOfWeightsAsItDoesUnderAutocast) {
  const auto kept_by = [](const ZeroOptions& options, bool autocast) {
    torch::nn::Sequential net;
    std::vector<ShardedDataParallel::UnitNames> units;
    for (int i = 0; i < 4; ++i) {
      net->push_back(torch::nn::Linear(256, 256));
      units.push_back({std::to_string(i)});
    }
    ShardedDataParallel sharded(*net, units, nullptr, options);
    Tensor h = torch::ones({1, 256});
    const tenfold::CountCpuMemory counting;
    const int64_t before = tenfold::live_bytes(torch::kCPU);
    for (size_t i = 0; i < units.size(); ++i) {
      const tenfold::Autocast scope(torch::kCPU, torch::kBFloat16, autocast);
      h = sharded.forward(i, h, [&](const Tensor& x) { return net[i]->as<torch::nn::Linear>()->forward(x); });
    }
    return tenfold::live_bytes(torch::kCPU) - before;
  };
  const int64_t weights = 3 * 256 * 256;  // of units that were released
  EXPECT_GT(kept_by({.prefetch = false}, /*autocast=*/true), 2 * weights + 4 * 256 * 256);
  const ZeroOptions in_16_bits{.prefetch = false, .gathered_as = torch::kBFloat16};
  EXPECT_LT(kept_by(in_16_bits, /*autocast=*/false), 2 * 256 * 256 + (16 << 10)) << "but for the last unit's";
}

TEST(ZeroIn16Bits, WhatCannotBeGatheredSoIsRefused) {
  Net net = net_with(1);
  const auto message = [&](int stage, torch::ScalarType type) {
    return tenfold::test::message_of<c10::ValueError>(
        [&] { ShardedDataParallel(*net, kUnits, nullptr, {.stage = stage, .gathered_as = type}); });
  };
  EXPECT_NE(message(2, torch::kBFloat16).find("only stage 3"), std::string::npos);
  EXPECT_NE(message(3, torch::kInt).find("choose kBFloat16 or kHalf"), std::string::npos);
}

// Each would hang in the first broadcast, or train apart.
TEST(Zero, RanksWithOtherModelsAreRefusedAndBuffersAreRankZeros) {
  on_ranks(2, [](int rank, const GroupPointer& group) {
    torch::nn::Sequential other(torch::nn::Linear(4, 4 + rank));
    EXPECT_THROW((ShardedDataParallel(*other, {{"0"}}, group, {})), c10::ValueError) << "rank " << rank;
    torch::nn::Sequential net(torch::nn::BatchNorm1d(3));
    net[0]->as<torch::nn::BatchNorm1d>()->running_mean.fill_(rank + 1);
    const ShardedDataParallel sharded(*net, {{"0"}}, group, {});
    EXPECT_TRUE(torch::equal(net[0]->as<torch::nn::BatchNorm1d>()->running_mean, torch::ones(3)));
  });
}

TEST(Zero, TheNormIsThatOfAllRanks) {
  const auto [x, y] = global_batch(0);
  Net alone = net_with(1);
  torch::mse_loss(alone(x), y).backward();
  const double norm = torch::nn::utils::clip_grad_norm_(alone->parameters(), 1e9);
  on_ranks(3, [&, x = x, y = y](int rank, const GroupPointer& group) {
    Net net = net_with(1);
    ShardedDataParallel sharded(*net, kUnits, group, {.stage = 2});
    torch::mse_loss(forward(*net, sharded, x.chunk(3)[rank]), y.chunk(3)[rank]).backward();
    sharded.finish();
    EXPECT_NEAR(sharded.clip_gradients(norm / 2).item<double>(), norm, 1e-5 * norm);
    EXPECT_NEAR(sharded.clip_gradients(1e9).item<double>(), norm / 2, 1e-5 * norm);
  });
}

TEST(Zero, AFrozenUnitThatStaysIsGatheredOnce) {
  for (const bool stays : {false, true}) {
    on_ranks(2, [&](int rank, const GroupPointer& plain) {
      const auto counter = std::make_shared<tenfold::RequestCounter>();
      Net net = net_with(1);
      freeze(net, {.frozen = true});
      ShardedDataParallel sharded(*net, kUnits, tenfold::counted_group(plain, counter),
                                  {.stage = 3, .keep_frozen = stays});
      torch::optim::AdamW optimizer(sharded.shards(), adamw());
      counter->take();
      train(*net, sharded, optimizer, {.steps = 3, .micro_batches = 2}, rank, 2);
      // In each pass the first unit twice, the last one once; the frozen one twice, too, or once for ever.
      EXPECT_EQ(counter->take()["all_gather"].calls, 3 * 2 * (2 + 1) + (stays ? 1 : 3 * 2 * 2));
    });
  }
}

TEST(Zero, RecomputedUnitsHaveTheirParametersAgain) {
  const auto [x, y] = global_batch(0);
  Net alone = net_with(1);
  torch::mse_loss(alone(x), y).backward();
  on_ranks(2, [&, x = x, y = y](int rank, const GroupPointer& group) {
    Net net = net_with(1);
    ShardedDataParallel sharded(*net, kUnits, group, {.stage = 3});
    Tensor h = sharded.forward(0, x.chunk(2)[rank], [&](const Tensor& in) { return torch::tanh(net->first(in)); });
    h = sharded.forward(1, h, [&](const Tensor& in) { return torch::tanh(tenfold::checkpoint(net->wide, in)); });
    h = sharded.forward(2, h, [&](const Tensor& in) { return net->last(in); });
    torch::mse_loss(h, y.chunk(2)[rank]).backward();
    sharded.finish();
    EXPECT_TRUE(torch::allclose(sharded.whole().gradients["wide.weight"], alone->wide->weight.grad(), 1e-5, 1e-7));
  });
}

TEST(Zero, WithoutAGraphNothingIsKept) {
  on_ranks(2, [](int, const GroupPointer& group) {
    Net net = net_with(1), same = net_with(1);
    ShardedDataParallel sharded(*net, kUnits, group, {.stage = 3, .reshard_after_forward = false});
    const torch::NoGradGuard no_grad;
    const Tensor x = global_batch(0).first;
    EXPECT_TRUE(torch::allclose(forward(*net, sharded, x), same(x)));
    for (const Tensor& parameter : net->parameters()) EXPECT_EQ(parameter.storage().nbytes(), 0u);
  });
}

TEST(Zero, SaysWhatIsWrongWithTheUnits) {
  const auto message = [](const std::vector<ShardedDataParallel::UnitNames>& units, bool frozen_bias) {
    Net net = net_with(1);
    if (frozen_bias) net->last->bias.requires_grad_(false);
    try {
      const ShardedDataParallel sharded(*net, units, nullptr, {});
    } catch (const c10::ValueError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message({{"first"}, {"wide"}}, false).find("parameter last.weight is in no unit"), std::string::npos);
  EXPECT_NE(message({{"first", "wide"}, {"wide", "last"}}, false).find("parameter wide.weight is in two units"),
            std::string::npos);
  EXPECT_NE(message(kUnits, true).find("make two units of them"), std::string::npos);
  EXPECT_NE(message({{"first", "wide", "last"}, {"head"}}, false).find("unit 'head' has no parameters"),
            std::string::npos);
  EXPECT_EQ(message(kUnits, false), "");
}

/// One layer under two names.
struct TwiceImpl : torch::nn::Module {
  TwiceImpl() : layer(4, 4) {
    register_module("first", layer);
    register_module("second", layer);
  }
  torch::nn::Linear layer;
};
TORCH_MODULE(Twice);

TEST(Zero, TwoNamesOfATensorAreOneParameterWithinAUnit) {
  Twice twice;
  ShardedDataParallel sharded(*twice, {{"first", "second"}}, nullptr, {});
  EXPECT_EQ(sharded.units()[0]->size(), 2U);  // weight and bias
  sharded.forward(0, torch::ones({1, 4}), [&](const Tensor& x) { return twice->layer(twice->layer(x)); })
      .sum()
      .backward();
  sharded.finish();
  EXPECT_THROW((ShardedDataParallel(*twice, {{"first"}, {"second"}}, nullptr, {})), c10::ValueError);
}

// A norm of 256 has a square that 16 bits cannot hold.
TEST(Zero, TheNormOfGradientsIn16BitsIsTakenIn32) {
  torch::nn::Sequential net(torch::nn::Linear(torch::nn::LinearOptions(1, 4).bias(false)));
  net->to(torch::kHalf);
  ShardedDataParallel sharded(*net, {{"0"}}, nullptr, {.stage = 2});
  const Tensor x = torch::full({1, 1}, 300, torch::kHalf);
  sharded.forward(0, x, [&](const Tensor& in) { return net->forward(in); }).sum().backward();
  sharded.finish();
  EXPECT_NEAR(sharded.clip_gradients(1.0).item<double>(), 600, 1);
  EXPECT_NEAR(sharded.clip_gradients(1e9).item<double>(), 1, 1e-2);
}

TEST(Zero, NamesAParameterThatGotNoGradient) {
  Net net = net_with(1);
  ShardedDataParallel sharded(*net, kUnits, nullptr, {.stage = 2});
  const Tensor x = torch::ones({2, 5});
  const Tensor h = sharded.forward(0, x, [&](const Tensor& y) { return y.matmul(net->first->weight.t()); });
  h.sum().backward();
  try {
    sharded.finish();
    FAIL() << "the bias has no gradient";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("no gradient in this backward() for: first.bias"), std::string::npos);
  }
}

// Other ranks would wait in its reduce-scatter.
TEST(Zero, NamesAUnitThatGotNoGradientAtAll) {
  for (const int stage : {1, 2, 3}) {
    Net net = net_with(1);
    ShardedDataParallel sharded(*net, kUnits, nullptr, {.stage = stage});
    for (int backward = 0; backward < 2; ++backward) {  // whole in the first, without unit "wide" in the second
      sharded.zero_grad();
      const Tensor h = sharded.forward(0, torch::ones({2, 5}), [&](const Tensor& x) { return net->first(x); });
      const Tensor y =
          backward == 0 ? sharded.forward(1, h, [&](const Tensor& x) { return net->wide(x); }) : h.narrow(1, 0, 16);
      sharded.forward(2, y, [&](const Tensor& x) { return net->last(x); }).sum().backward();
      const std::string message = tenfold::test::message_of<c10::Error>([&] { sharded.finish(); });
      EXPECT_EQ(message.find("wide.weight, wide.bias") != std::string::npos, backward == 1) << message;
    }
  }
}

TEST(Zero, AGradientThatAFunctionLeavesOutIsZero) {
  Net net = net_with(1);
  ShardedDataParallel sharded(*net, {{"first"}, {"wide"}, {"last"}}, nullptr, {.stage = 2});
  Tensor h = sharded.forward(0, torch::ones({2, 5}), [&](const Tensor& x) { return net->first(x); });
  h = sharded.forward(1, h, [&](const Tensor& x) {
    return tenfold::test::Forgetful::apply(x, net->wide->weight) + net->wide->bias.sum();
  });
  sharded.forward(2, h.narrow(1, 0, 16), [&](const Tensor& x) { return net->last(x); }).sum().backward();
  sharded.finish();
  const auto whole = sharded.whole();
  EXPECT_EQ(whole.gradients["wide.weight"].abs().sum().item<float>(), 0);
  EXPECT_NE(whole.gradients["wide.bias"].abs().sum().item<float>(), 0);
}

// After a bias of 19 values the next weight would begin 4 bytes off, and vectorised kernels would not take it.
TEST(Zero, ParametersBeginAtMultiplesOf16Bytes) {
  for (const auto type : {torch::kFloat, torch::kBFloat16}) {
    Net net = net_with(1);
    net->to(type);
    const ShardedDataParallel sharded(*net, {{"first", "wide", "last"}}, nullptr, {.stage = 2});
    for (const auto& parameter : net->named_parameters())
      EXPECT_EQ(reinterpret_cast<uintptr_t>(parameter.value().data_ptr()) % 16, 0U) << parameter.key();
  }
}

// In 16 bits a shard of 17 values would let the next one begin 2 bytes off.
TEST(Zero, ShardsBeginAtMultiplesOf32BytesOnEveryRank) {
  for (const int stage : {1, 3}) {
    on_ranks(3, [&](int /*rank*/, const GroupPointer& group) {
      Net net = net_with(1);
      net->to(torch::kBFloat16);
      const ShardedDataParallel sharded(*net, kUnits, group, {.stage = stage});
      for (const Tensor& shard : sharded.shards()) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(shard.data_ptr()) % 32, 0U);
        EXPECT_EQ(shard.nbytes() % 32, 0U);
      }
    });
  }
}

TEST(ShardedCheckpoint, ShardsOfAnyNumberOfRanksMakeThoseOfAnyOther) {
  const int64_t values = 11 * 16 + 3;
  const Tensor all = torch::arange(1, values + 1, torch::kFloat);
  const Tensor alone = torch::constant_pad_nd(all, {0, tenfold::shard_size(values, 1) - values});
  const auto shards_of = [&](int ranks) {
    std::vector<Tensor> shards;
    for (int rank = 0; rank < ranks; ++rank) shards.push_back(tenfold::resharded({alone}, values, rank, ranks));
    return shards;
  };
  for (const int from : {1, 2, 3, 4, 8}) {
    for (const int to : {1, 2, 3, 5, 8}) {
      std::vector<Tensor> shards;
      for (int rank = 0; rank < to; ++rank) shards.push_back(tenfold::resharded(shards_of(from), values, rank, to));
      const Tensor joined = torch::cat(shards);
      EXPECT_TRUE(torch::equal(joined.narrow(0, 0, values), all)) << from << " to " << to;
      EXPECT_EQ(joined.narrow(0, values, joined.numel() - values).abs().sum().item<float>(), 0);
    }
  }
  EXPECT_THROW(tenfold::resharded({shards_of(3)[0], shards_of(3)[1]}, values, 0, 2), c10::ValueError);
}

// Where as many ranks go on, each needs its own file alone.
TEST(ShardedCheckpoint, ARankGoesOnFromItsOwnShards) {
  const std::vector<Tensor> alone = trained_alone({.steps = 6});
  on_ranks(2, [&](int rank, const GroupPointer& group) {
    std::vector<tenfold::ShardCheckpoint> of_ranks(2);
    {
      Net net = net_with(1);
      ShardedDataParallel sharded(*net, kUnits, group);
      torch::optim::AdamW optimizer(sharded.shards(), adamw());
      train(*net, sharded, optimizer, {.steps = 3}, rank, 2);
      of_ranks[static_cast<size_t>(rank)] = tenfold::checkpoint_of(sharded, optimizer);
    }
    Net net = net_with(2);
    ShardedDataParallel sharded(*net, kUnits, group);
    torch::optim::AdamW optimizer(sharded.shards(), adamw());
    tenfold::load_checkpoint(of_ranks, sharded, optimizer);
    train(*net, sharded, optimizer, {.steps = 3, .first_step = 3}, rank, 2);
    EXPECT_LT(largest_difference(sharded.whole().parameters.values(), alone), kTolerance);
    EXPECT_THROW(tenfold::load_checkpoint({{}, {}}, sharded, optimizer), std::out_of_range);
    of_ranks[static_cast<size_t>(rank)].at("wide/layout")[1] += 1;
    EXPECT_THROW(tenfold::load_checkpoint(of_ranks, sharded, optimizer), c10::ValueError);
    of_ranks[static_cast<size_t>(rank)].erase("wide/layout");  // of an older version
    EXPECT_THROW(tenfold::load_checkpoint(of_ranks, sharded, optimizer), c10::ValueError);
  });
}

TEST(ShardedCheckpoint, ThreeRanksGoOnWhereTwoHaveStopped) {
  const std::vector<Tensor> alone = trained_alone({.steps = 6});
  const tenfold::test::Scratch folder;
  const auto file = [&](int rank) { return (folder.path() / ("rank" + std::to_string(rank) + ".pt")).string(); };
  for (const int stage : {1, 3}) {
    on_ranks(2, [&](int rank, const GroupPointer& group) {
      Net net = net_with(1);
      ShardedDataParallel sharded(*net, kUnits, group, {.stage = stage});
      torch::optim::AdamW optimizer(sharded.shards(), adamw());
      train(*net, sharded, optimizer, {.steps = 3}, rank, 2);
      tenfold::save_checkpoint(tenfold::checkpoint_of(sharded, optimizer), file(rank));
    });
    on_ranks(3, [&](int rank, const GroupPointer& group) {
      Net net = net_with(2);
      ShardedDataParallel sharded(*net, kUnits, group, {.stage = stage});
      torch::optim::AdamW optimizer(sharded.shards(), adamw());
      tenfold::load_checkpoint({tenfold::read_checkpoint(file(0)), tenfold::read_checkpoint(file(1))}, sharded,
                               optimizer);
      train(*net, sharded, optimizer, {.steps = 3, .first_step = 3}, rank, 3);
      EXPECT_LT(largest_difference(sharded.whole().parameters.values(), alone), kTolerance);
    });
  }
}

}  // namespace
