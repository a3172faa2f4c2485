#include "data_parallel.h"

#include <gtest/gtest.h>

#include "common/ranks/rank_threads.h"
#include "link_time.h"
#include "rank_exchange.h"
#include "surveys.h"

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/support.h"

namespace {

using tenfold::DataParallel;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

constexpr int64_t kInputs = 6, kHidden = 5;

struct Net : torch::nn::Module {
  explicit Net(int64_t hidden = kHidden)
      : first(register_module("first", torch::nn::Linear(kInputs, hidden))),
        norm(register_module("norm", torch::nn::BatchNorm1d(hidden))),
        last(register_module("last", torch::nn::Linear(hidden, 1))) {}
  // Without the norm, which depends on which rows meet in a batch.
  Tensor forward(const Tensor& x) { return last(torch::tanh(first(x))); }

  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear last;
};

/// The CPU several times, and where there are GPUs as many of those.
std::vector<std::vector<torch::Device>> device_lists() {
  std::vector<std::vector<torch::Device>> lists;
  for (size_t count = 1; count <= 4; ++count) lists.emplace_back(count, torch::kCPU);
  std::vector<torch::Device> gpus;
  for (c10::DeviceIndex i = 0; i < torch::cuda::device_count(); ++i) gpus.emplace_back(torch::kCUDA, i);
  if (gpus.size() > 1) lists.push_back(gpus);
  return lists;
}

std::shared_ptr<Net> net_on(torch::Device device) {
  torch::manual_seed(1);
  auto net = std::make_shared<Net>();
  net->to(device);
  return net;
}

DataParallel<Net> parallel_of(const std::shared_ptr<Net>& net, const std::vector<torch::Device>& devices) {
  return {net, devices, [] { return std::make_shared<Net>(); }};
}

struct Trained {
  double loss = 0;
  Tensors gradients;
};

Trained result_of(const Tensor& loss, const Net& net) {
  Trained result{loss.item<double>(), {}};
  for (const Tensor& parameter : net.parameters()) {
    if (parameter.grad().defined()) result.gradients.push_back(parameter.grad().to(torch::kCPU));
  }
  return result;
}

struct Batch {
  explicit Batch(int64_t rows) {
    torch::manual_seed(2);
    x = torch::randn({rows, kInputs});
    y = torch::randn({rows, 1});
  }
  Tensor x, y;
};

Trained alone(const Batch& batch) {
  const auto net = net_on(torch::kCPU);
  Tensor loss = torch::mse_loss(net->forward(batch.x), batch.y);
  loss.backward();
  return result_of(loss, *net);
}

enum class Loss { of_outputs, mean_over_rows, mean_of_means };

Trained together(const Batch& batch, const std::vector<torch::Device>& devices, Loss how) {
  const auto net = net_on(devices[0]);
  auto parallel = parallel_of(net, devices);
  const Tensor targets = batch.y.to(devices[0]);
  const Tensors x = parallel.scatter(batch.x.to(devices[0])), y = parallel.scatter(targets);
  parallel.replicate();
  Tensor loss;
  if (how == Loss::of_outputs) {
    loss = torch::mse_loss(
        parallel.gather(parallel.apply(x.size(), [&](Net& each, size_t i) { return each.forward(x[i]); })), targets);
  } else {
    const Tensor losses = parallel.gather(parallel.apply(
        x.size(), [&](Net& each, size_t i) { return torch::mse_loss(each.forward(x[i]), y[i]).unsqueeze(0); }));
    loss = how == Loss::mean_over_rows ? tenfold::mean_over_rows(losses, x) : losses.mean();
  }
  loss.backward();
  parallel.release();
  return result_of(loss, *net);
}

/// The largest difference of a gradient, or of the loss.
double difference(const Trained& a, const Trained& b) {
  double most = std::abs(a.loss - b.loss);
  EXPECT_EQ(a.gradients.size(), b.gradients.size());
  for (size_t i = 0; i < a.gradients.size(); ++i)
    most = std::max(most, (a.gradients[i] - b.gradients[i]).abs().max().item<double>());
  return most;
}

// Some ten numbers of size 1 in another order: rounding is below 1e-6, a row that is weighed wrongly above 1e-2.
constexpr double kRounding = 1e-5;

TEST(DataParallel, EqualsOneDeviceAlsoForPartsOfUnequalSize) {
  for (const auto& devices : device_lists()) {
    for (const int64_t rows : {8, 7, 3}) {  // 3 rows on 4 devices: one has none
      const Batch batch(rows);
      EXPECT_LT(difference(together(batch, devices, Loss::of_outputs), alone(batch)), kRounding) << rows;
      EXPECT_LT(difference(together(batch, devices, Loss::mean_over_rows), alone(batch)), kRounding) << rows;
    }
  }
}

TEST(DataParallel, AMeanOfMeansIsAnotherGradientIfPartsAreUnequal) {
  const std::vector<torch::Device> two(2, torch::kCPU);
  EXPECT_LT(difference(together(Batch(8), two, Loss::mean_of_means), alone(Batch(8))), kRounding);
  EXPECT_GT(difference(together(Batch(7), two, Loss::mean_of_means), alone(Batch(7))), 100 * kRounding);
}

TEST(DataParallel, WhatPassesTheFirstDeviceIsTheFormula) {
  const tenfold::GptOptions options{.layers = 1, .width = 16, .heads = 2, .length = 8, .batch = 12};
  for (const int devices : {1, 2, 3, 4}) {
    const auto counted = tenfold::passed_by_count(options, devices);
    const auto formula = tenfold::passed_by_formula(options, devices);
    EXPECT_EQ(counted.out, formula.out) << devices;
    EXPECT_EQ(counted.in, formula.in) << devices;
    if (devices > 1) {
      EXPECT_EQ(tenfold::sent_by_ddp(options, devices),
                static_cast<double>(tenfold::ring_bytes(tenfold::parameter_bytes(options), devices)));
    }
  }
}

TEST(DataParallel, ReplicasHoldNothingBetweenTwoSteps) {
  const auto net = net_on(torch::kCPU);
  auto parallel = parallel_of(net, std::vector<torch::Device>(3, torch::kCPU));
  const auto held = [&] {
    size_t bytes = 0;
    for (size_t i = 1; i < 3; ++i) {
      for (const Tensor& parameter : parallel.replica(i).parameters()) bytes += parameter.storage().nbytes();
      for (const Tensor& buffer : parallel.replica(i).buffers()) bytes += buffer.storage().nbytes();
    }
    return bytes;
  };
  EXPECT_EQ(held(), 0U);
  parallel.replicate();
  EXPECT_GT(held(), 0U);
  for (const Tensor& parameter : parallel.replica(1).parameters()) EXPECT_FALSE(parameter.is_leaf());
  EXPECT_NE(parallel.replica(1).first->weight.data_ptr(), net->first->weight.data_ptr()) << "a copy, also on one CPU";
  parallel.release();
  EXPECT_EQ(held(), 0U);
  for (const Tensor& parameter : parallel.replica(1).parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST(DataParallel, OnlyTheFirstPartsStatisticsStay) {
  const auto net = net_on(torch::kCPU), first_alone = net_on(torch::kCPU);
  auto parallel = parallel_of(net, std::vector<torch::Device>(2, torch::kCPU));
  const Tensor h = torch::randn({8, kHidden}) + torch::arange(8).unsqueeze(1);
  const Tensors parts = parallel.scatter(h);
  parallel.replicate();
  const Tensor normed =
      parallel.gather(parallel.apply(2, [&](Net& each, size_t i) { return each.norm->forward(parts[i]); }));
  first_alone->norm->forward(parts[0]);
  EXPECT_TRUE(torch::equal(net->norm->running_mean, first_alone->norm->running_mean));
  EXPECT_EQ(net->norm->num_batches_tracked.item<int64_t>(), 1);
  EXPECT_NEAR(normed.narrow(0, 4, 4).mean().item<double>(), 0, 1e-5) << "normalised within its own part";
}

TEST(DataParallel, ReplicasFollowTheModule) {
  const auto net = net_on(torch::kCPU);
  net->last->weight.set_requires_grad(false);
  auto parallel = parallel_of(net, std::vector<torch::Device>(2, torch::kCPU));
  net->eval();
  {
    const torch::NoGradGuard no_grad;
    net->first->weight.mul_(3);
  }
  parallel.replicate();
  EXPECT_FALSE(parallel.replica(1).is_training());
  EXPECT_FALSE(parallel.replica(1).last->weight.requires_grad());
  EXPECT_TRUE(torch::equal(parallel.replica(1).first->weight, net->first->weight));
  const Tensors x = parallel.scatter(torch::ones({4, kInputs}));
  {
    const torch::NoGradGuard no_grad;  // also on the replicas' threads
    EXPECT_FALSE(
        parallel.gather(parallel.apply(2, [&](Net& each, size_t i) { return each.forward(x[i]); })).requires_grad());
  }
  parallel.gather(parallel.apply(2, [&](Net& each, size_t i) { return each.forward(x[i]); })).sum().backward();
  EXPECT_TRUE(net->first->weight.grad().defined());
  EXPECT_FALSE(net->last->weight.grad().defined());
}

TEST(DataParallel, WhatCannotTrainIsRefused) {
  const auto message_of = [](const auto& work) { return tenfold::test::message_of<c10::ValueError>(work); };
  const auto net = net_on(torch::kCPU);
  const auto make = [] { return std::make_shared<Net>(); };
  EXPECT_NE(message_of([&] { DataParallel<Net>(net, {}, make); }), "");
  EXPECT_NE(
      message_of([&] { DataParallel<Net>(net, {torch::kMeta, torch::kMeta}, make); }).find("is on cpu; all belong"),
      std::string::npos);
  EXPECT_NE(message_of([&] {
              DataParallel<Net>(net, {torch::kCPU, torch::kCPU}, [] { return std::make_shared<Net>(kHidden + 1); });
            }).find("where the module has one of"),
            std::string::npos);
  auto parallel = parallel_of(net, {torch::kCPU, torch::kCPU});
  EXPECT_NE(message_of([&] { parallel.apply(3, [](Net&, size_t) { return Tensor(); }); }), "");
}

TEST(DataParallel, AReplicasExceptionArrives) {
  auto parallel = parallel_of(net_on(torch::kCPU), std::vector<torch::Device>(3, torch::kCPU));
  const auto throws_in_the_last = [&] {
    parallel.apply(3, [](Net&, size_t i) -> Tensor {
      if (i == 2) throw std::runtime_error("in replica 2");
      return torch::zeros({1});
    });
  };
  EXPECT_EQ(tenfold::test::message_of<std::runtime_error>(throws_in_the_last), "in replica 2");
}

TEST(RankExchange, EqualsOneProcess) {
  const Batch batch(6);
  const Trained one = alone(batch);
  const Tensors right = net_on(torch::kCPU)->parameters();  // here, since all threads draw from one generator
  tenfold::on_rank_threads(3, std::chrono::seconds(20), [&](int rank, const auto& group) {
    Net net;
    Tensors used = net.first->parameters();
    for (const Tensor& parameter : net.last->parameters()) used.push_back(parameter);
    if (rank == 0) {
      const torch::NoGradGuard no_grad;
      for (size_t i = 0; i < right.size(); ++i) net.parameters()[i].copy_(right[i]);
    }
    const tenfold::RankExchange exchange(used, group, {.first_bucket_bytes = 64, .bucket_bytes = 64});
    exchange.broadcast_parameters();
    Tensor own = net.forward(exchange.scatter(rank == 0 ? batch.x : Tensor(), {2, kInputs}, torch::kFloat));
    const Tensor outputs = exchange.gather(own);
    if (rank == 0) {
      Tensor loss = torch::mse_loss(outputs, batch.y);
      loss.backward();
      exchange.reduce_gradients();
      EXPECT_LT(difference(result_of(loss, net), one), kRounding);
    } else {
      own.backward(exchange.scatter({}, own.sizes().vec(), torch::kFloat));
      exchange.reduce_gradients();
      for (const Tensor& parameter : used) EXPECT_FALSE(parameter.grad().defined());
    }
  });
}

TEST(LinkTime, HasThePublishedRowsInOrderAndMissesNoneByFivePercent) {
  using Table = tenfold::PublishedTable;
  const auto job = Table::job();
  const double ddp = Table::kSteps * tenfold::ddp_seconds(job, Table::kNvlink, 1);
  const double data_parallel = Table::kSteps * tenfold::data_parallel_seconds(job, Table::kNvlink);
  const double slow = tenfold::ddp_link(job, Table::kDdpWithout / Table::kSteps, 0);
  EXPECT_NEAR(ddp / Table::kDdpNvlink, 1, 1e-9);
  EXPECT_NEAR(data_parallel / Table::kDataParallel, 1, 0.05);
  EXPECT_NEAR(Table::kSteps * tenfold::ddp_seconds(job, slow, 0) / Table::kDdpWithout, 1, 1e-9);
  EXPECT_LT(data_parallel, Table::kDdpWithout) << "as published: over a faster link";
  EXPECT_GT(Table::kSteps * tenfold::data_parallel_seconds(job, slow), Table::kDdpWithout) << "over the same link";
}

TEST(LinkTime, OverOneLinkDataParallelIsNeverFaster) {
  for (const int devices : {2, 3, 8}) {
    for (const double link : {1e8, 1e10, 1e12}) {
      for (const double outputs : {0.0, 1e9}) {
        const tenfold::LinkJob job{devices, 5e8, outputs, 0.5, true};
        EXPECT_GE(tenfold::data_parallel_seconds(job, link), tenfold::ddp_seconds(job, link, 0));
      }
    }
  }
}

}  // namespace
