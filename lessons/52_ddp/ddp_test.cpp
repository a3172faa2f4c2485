#include <gtest/gtest.h>

#include "common/ranks/rank_threads.h"
#include "ddp.h"
#include "distributed_sampler.h"
#include "lessons/31_activation_checkpointing/checkpoint.h"
#include "metrics.h"
#include "pytorch_reducer.h"
#include "used_parameters.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>

#include "tests/support/forgetful.h"
#include "tests/support/support.h"

namespace {

using torch::Tensor;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
using Tensors = std::vector<Tensor>;

void on_ranks(int world_size, const std::function<void(int, const Group&)>& work) {
  tenfold::on_rank_threads(world_size, std::chrono::seconds(20), work);
}

/// Layers of unequal size, a buffer, and a weight that is larger than most buckets in the tests.
struct NetImpl : torch::nn::Module {
  NetImpl() : first(5, 40), wide(40, 33), last(33, 3) {
    register_module("first", first);
    register_module("wide", wide);
    register_module("last", last);
    scale = register_buffer("scale", torch::ones({1}));
  }
  Tensor forward(const Tensor& x) { return last(torch::tanh(wide(torch::tanh(first(x))))) * scale; }
  torch::nn::Linear first, wide, last;
  Tensor scale;
};
TORCH_MODULE(Net);

Net net_with(uint64_t seed) {
  Net net;
  torch::NoGradGuard no_grad;
  auto generator = at::detail::createCPUGenerator(seed);
  for (const Tensor& parameter : net->parameters()) parameter.normal_(0, 0.3, generator);
  net->scale.fill_(static_cast<double>(seed));
  return net;
}

constexpr int64_t kRows = 12;
constexpr int kSteps = 4;

std::pair<Tensor, Tensor> global_batch(int step) {
  auto generator = at::detail::createCPUGenerator(100 + static_cast<uint64_t>(step));
  return {torch::randn({kRows, 5}, generator), torch::randn({kRows, 3}, generator)};
}

Tensor loss_of(Net& net, const Tensor& x, const Tensor& y) { return torch::mse_loss(net(x), y); }

torch::optim::SGD sgd(Net& net) {
  return torch::optim::SGD(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
}

/// What one process makes of the global batches.
Tensors trained_alone() {
  Net net = net_with(1);
  auto optimizer = sgd(net);
  for (int step = 0; step < kSteps; ++step) {
    const auto [x, y] = global_batch(step);
    optimizer.zero_grad();
    loss_of(net, x, y).backward();
    optimizer.step();
  }
  return net->parameters();
}

double largest_difference(const Tensors& a, const Tensors& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, (a[i] - b[i]).abs().max().item<double>());
  return largest;
}

struct Trained {
  std::vector<Tensors> ranks;
  std::vector<tenfold::Traffic> traffic;
};

/// Trains on parts of the same batches with DistributedDataParallel. Each rank starts elsewhere: the broadcast must
/// help.
Trained trained_together(int world_size, tenfold::DdpOptions options, int micro_batches = 1, bool quiet = false) {
  Trained result{std::vector<Tensors>(static_cast<size_t>(world_size)),
                 std::vector<tenfold::Traffic>(static_cast<size_t>(world_size))};
  on_ranks(world_size, [&](int rank, const Group& group) {
    Net net = net_with(static_cast<uint64_t>(rank) + 1);
    auto optimizer = sgd(net);
    tenfold::DistributedDataParallel ddp(*net, group, options);
    for (int step = 0; step < kSteps; ++step) {
      const auto [x, y] = global_batch(step);
      const auto xs = tenfold::local_batch(x, rank, world_size).chunk(micro_batches);
      const auto ys = tenfold::local_batch(y, rank, world_size).chunk(micro_batches);
      optimizer.zero_grad();
      for (int i = 0; i < micro_batches; ++i) {
        std::optional<tenfold::NoSync> no_sync;
        if (quiet && i + 1 < micro_batches) no_sync.emplace(ddp);
        (loss_of(net, xs[i], ys[i]) / micro_batches).backward();
        ddp.finish();
      }
      optimizer.step();
    }
    result.ranks[static_cast<size_t>(rank)] = net->parameters();
    result.traffic[static_cast<size_t>(rank)] = ddp.traffic();
  });
  return result;
}

int64_t parameter_bytes() {
  int64_t bytes = 0;
  for (const Tensor& parameter : Net()->parameters()) bytes += static_cast<int64_t>(parameter.nbytes());
  return bytes;
}

// Everything in one bucket; uneven buckets; each gradient alone; weights larger than any bucket.
const tenfold::DdpOptions kOptions[] = {{}, {512, 4096}, {1, 1}, {64, 100}};

TEST(Ddp, TwoAndThreeRanksEqualOneProcessOnTheGlobalBatch) {
  const Tensors alone = trained_alone();
  for (const int world_size : {2, 3}) {
    for (const auto& options : kOptions) {
      const Trained together = trained_together(world_size, options);
      for (const Tensors& rank : together.ranks)
        EXPECT_LT(largest_difference(rank, alone), 1e-6) << world_size << " ranks";
    }
  }
}

TEST(Ddp, ReplicasStayEqualBitForBit) {
  const Trained together = trained_together(3, {512, 4096});
  for (const Tensors& rank : together.ranks) {
    for (size_t i = 0; i < rank.size(); ++i) EXPECT_TRUE(torch::equal(rank[i], together.ranks[0][i]));
  }
}

TEST(Ddp, BroadcastsBuffersToo) {
  on_ranks(2, [](int rank, const Group& group) {
    Net net = net_with(static_cast<uint64_t>(rank) + 1);
    const tenfold::DistributedDataParallel ddp(*net, group);
    EXPECT_EQ(net->scale.item<float>(), 1);
  });
}

TEST(Ddp, SendsEveryGradientOnceAStep) {
  for (const auto& options : kOptions) {
    const Trained together = trained_together(2, options);
    const auto buckets = tenfold::assign_buckets(Net()->parameters(), options);
    for (const auto& traffic : together.traffic) {
      EXPECT_EQ(traffic.payload_bytes, kSteps * parameter_bytes());
      EXPECT_EQ(traffic.all_reduces, kSteps * static_cast<int64_t>(buckets.size()));
    }
  }
  EXPECT_EQ(tenfold::ring_bytes(1200, 2), 1200);
  EXPECT_EQ(tenfold::ring_bytes(1200, 3), 1600);
  EXPECT_EQ(tenfold::ring_bytes(1200, 1), 0);
}

// With gradients that are views nothing is copied back, and the numbers are the same.
TEST(Ddp, GradientsThatAreViewsOfTheirBuckets) {
  const Tensors alone = trained_alone();
  tenfold::DdpOptions views{512, 4096};
  views.gradients_are_views = true;
  for (const bool quiet : {false, true}) {
    const Trained together = trained_together(2, views, /*micro_batches=*/3, quiet);
    for (const Tensors& rank : together.ranks) EXPECT_LT(largest_difference(rank, alone), 1e-6);
  }
  on_ranks(2, [&](int rank, const Group& group) {
    Net net = net_with(1);
    tenfold::DistributedDataParallel ddp(*net, group, {.gradients_are_views = true});
    for (const bool to_none : {true, false}) {
      net->zero_grad(to_none);
      net(torch::full({2, 5}, rank + 1.0)).sum().backward();
      ddp.finish();
      EXPECT_EQ(net->last->bias.grad()[0].item<float>(), 2);
      EXPECT_TRUE(net->last->bias.grad().is_alias_of(net->first->weight.grad())) << "one bucket";
    }
  });
}

// 16 bits on the way: half the bytes, and gradients that are off by the bits that were lost, 2^-8 of a value in each of
// the products, the sum and the mean.
TEST(Ddp, GradientsSentAsBfloat16) {
  on_ranks(2, [](int rank, const Group& group) {
    Net net = net_with(1), global = net_with(1);
    tenfold::DistributedDataParallel ddp(*net, group, {.sent_as = torch::kBFloat16});
    const auto [x, y] = global_batch(0);
    loss_of(global, x, y).backward();
    loss_of(net, tenfold::local_batch(x, rank, 2), tenfold::local_batch(y, rank, 2)).backward();
    ddp.finish();
    EXPECT_EQ(ddp.traffic().payload_bytes, parameter_bytes() / 2);
    const Tensor exact = global->wide->weight.grad(), sent = net->wide->weight.grad();
    EXPECT_EQ(sent.scalar_type(), torch::kFloat);
    const double largest = exact.abs().max().item<double>();
    EXPECT_LT((sent - exact).abs().max().item<double>(), 3 * largest / 256);
    EXPECT_GT((sent - exact).abs().max().item<double>(), 1e-6 * largest) << "nothing was rounded";
    const tenfold::DdpOptions both{.gradients_are_views = true, .sent_as = torch::kBFloat16};
    EXPECT_THROW((tenfold::DistributedDataParallel(*net, group, both)), c10::ValueError);
  });
}

/// Two branches, of which a loss may use one.
struct BranchesImpl : torch::nn::Module {
  BranchesImpl() : left(5, 3), right(5, 3), neither(5, 3) {
    register_module("left", left);
    register_module("right", right);
    register_module("neither", neither);
    const torch::NoGradGuard no_grad;
    auto generator = at::detail::createCPUGenerator(1);
    for (const Tensor& parameter : parameters()) parameter.normal_(0, 0.3, generator);
  }
  torch::nn::Linear left, right, neither;
};
TORCH_MODULE(Branches);

TEST(Ddp, AGradientThatAFunctionLeavesOutIsZero) {
  on_ranks(2, [&](int /*rank*/, const Group& group) {
    torch::nn::Linear net(3, 3);
    tenfold::DistributedDataParallel ddp(*net, group, {});
    (tenfold::test::Forgetful::apply(torch::ones({2, 3}), net->weight) * net->bias).sum().backward();
    ddp.finish();
    EXPECT_EQ(net->weight.grad().abs().sum().item<float>(), 0);
    EXPECT_NE(net->bias.grad().abs().sum().item<float>(), 0);
  });
}

// Rank 0's loss uses the left branch, rank 1's the right: the mean of both, as one process computes it.
TEST(Ddp, ALossThatDoesNotUseEveryParameter) {
  for (const bool views : {false, true}) {
    on_ranks(2, [&](int rank, const Group& group) {
      Branches net, alone;
      tenfold::DdpOptions options{1, 1};
      options.gradients_are_views = views;
      tenfold::DistributedDataParallel ddp(*net, group, options);
      for (int step = 0; step < 2; ++step) {
        const auto [x, y] = global_batch(step);
        alone->zero_grad();
        ((alone->left(x).square().mean() + alone->right(x).square().mean()) / 2).backward();
        net->zero_grad();
        const Tensor loss = (rank == 0 ? net->left : net->right)(x).square().mean();
        ddp.expect(loss);
        loss.backward();
        ddp.finish();
        EXPECT_TRUE(torch::allclose(net->left->weight.grad(), alone->left->weight.grad(), 1e-5, 1e-7));
        EXPECT_TRUE(torch::allclose(net->right->weight.grad(), alone->right->weight.grad(), 1e-5, 1e-7));
        EXPECT_FALSE(net->neither->weight.grad().defined()) << "weight decay must not shrink it";
      }
      {
        const tenfold::NoSync no_sync(ddp);  // the right branch now, and the left one in the last micro-batch
        net->zero_grad();
        net->right(global_batch(0).first).square().mean().backward();
      }
      const Tensor last = net->left(global_batch(1).first).square().mean();
      ddp.expect(last);
      last.backward();
      ddp.finish();
      alone->zero_grad();
      (alone->right(global_batch(0).first).square().mean() + alone->left(global_batch(1).first).square().mean())
          .backward();
      EXPECT_TRUE(torch::allclose(net->left->weight.grad(), alone->left->weight.grad(), 1e-5, 1e-7));
      EXPECT_TRUE(torch::allclose(net->right->weight.grad(), alone->right->weight.grad(), 1e-5, 1e-7));
    });
  }
}

TEST(Ddp, ParametersOfAGraph) {
  Branches net;
  const Tensor x = torch::ones({2, 5});
  const auto leaves = tenfold::parameters_in_graph(net->left(x).sum() + net->left(x).sum());
  EXPECT_EQ(leaves.size(), 2U);
  EXPECT_TRUE(leaves.contains(net->left->weight.unsafeGetTensorImpl()));
  EXPECT_TRUE(tenfold::parameters_in_graph(torch::ones({})).empty());
  Tensor deep = net->right->bias;  // recursion would not come this far
  for (int i = 0; i < 200000; ++i) deep = deep + 1;
  EXPECT_EQ(tenfold::parameters_in_graph(deep.sum()).size(), 1U);
}

// Rank r has 3 - r batches: updates with three, two and one of them.
TEST(Ddp, RanksWithFewerBatchesSendZerosUntilAllHaveNone) {
  constexpr int kRanks = 3;
  const auto batch_of = [](int rank, int update) { return global_batch(10 * rank + update); };
  Net alone = net_with(1);
  auto optimizer = sgd(alone);
  for (int update = 0; update < kRanks; ++update) {
    optimizer.zero_grad();
    for (int rank = 0; rank < kRanks - update; ++rank) {
      const auto [x, y] = batch_of(rank, update);
      (loss_of(alone, x, y) / (kRanks - update)).backward();
    }
    optimizer.step();
  }
  on_ranks(kRanks, [&](int rank, const Group& group) {
    Net net = net_with(1);
    auto own = sgd(net);
    tenfold::DistributedDataParallel ddp(*net, group, {512, 4096});
    int update = 0;
    while (const int64_t ranks = tenfold::ranks_with_batch(update < kRanks - rank, torch::kCPU, *group)) {
      own.zero_grad();
      ddp.mean_over(ranks);
      if (update < kRanks - rank) {
        const auto [x, y] = batch_of(rank, update);
        loss_of(net, x, y).backward();
      } else {
        ddp.without_batch();
      }
      ddp.finish();
      own.step();
      ++update;
    }
    EXPECT_EQ(update, kRanks);
    EXPECT_LT(largest_difference(net->parameters(), alone->parameters()), 1e-6);
  });
}

// A rank's data may end in the middle of an accumulation: what its micro-batches have left counts.
TEST(Ddp, WithoutABatchWhatWasAccumulatedIsSent) {
  const auto [x, y] = global_batch(0);
  Net alone = net_with(1);
  loss_of(alone, x, y).backward();
  on_ranks(2, [&, x = x, y = y](int rank, const Group& group) {
    Net net = net_with(1);
    tenfold::DistributedDataParallel ddp(*net, group);
    ddp.mean_over(1);
    if (rank == 0) {
      {
        const tenfold::NoSync no_sync(ddp);
        loss_of(net, x, y).backward();
      }
      ddp.without_batch();
    } else {
      ddp.without_batch();
    }
    ddp.finish();
    const auto own = net->parameters(), whole = alone->parameters();
    for (size_t i = 0; i < own.size(); ++i)
      EXPECT_LT((own[i].grad() - whole[i].grad()).abs().max().item<double>(), 1e-6) << "parameter " << i;
  });
}

TEST(Ddp, AccumulationWithAndWithoutNoSync) {
  const Tensors alone = trained_alone();
  const Trained each = trained_together(2, {512, 4096}, /*micro_batches=*/3, /*quiet=*/false);
  const Trained once = trained_together(2, {512, 4096}, /*micro_batches=*/3, /*quiet=*/true);
  for (const auto& rank : each.ranks) EXPECT_LT(largest_difference(rank, alone), 1e-6);
  for (const auto& rank : once.ranks) EXPECT_LT(largest_difference(rank, alone), 1e-6);
  EXPECT_EQ(once.traffic[0].payload_bytes, kSteps * parameter_bytes());
  EXPECT_EQ(each.traffic[0].payload_bytes, 3 * kSteps * parameter_bytes());
}

TEST(Ddp, NoSyncLeavesGradientsLocalAndEndsWithItsScope) {
  on_ranks(2, [](int rank, const Group& group) {
    Net net = net_with(1);
    tenfold::DistributedDataParallel ddp(*net, group);
    const auto [x, y] = global_batch(0);
    const Tensor my_x = tenfold::local_batch(x, rank, 2), my_y = tenfold::local_batch(y, rank, 2);
    Net local = net_with(1);
    loss_of(local, my_x, my_y).backward();
    {
      const tenfold::NoSync no_sync(ddp);
      loss_of(net, my_x, my_y).backward();
      ddp.finish();
    }
    EXPECT_TRUE(torch::allclose(net->last->weight.grad(), local->last->weight.grad(), 1e-5, 1e-7));
    EXPECT_EQ(ddp.traffic().all_reduces, 0);
    loss_of(net, my_x, my_y).backward();
    ddp.finish();
    EXPECT_GT(ddp.traffic().all_reduces, 0);
    EXPECT_FALSE(torch::allclose(net->last->weight.grad(), 2 * local->last->weight.grad()));
  });
}

TEST(Ddp, NaiveAndBucketedAverageLikeIt) {
  for (const bool bucketed : {false, true}) {
    on_ranks(3, [&](int rank, const Group& group) {
      Net net = net_with(1), global = net_with(1);
      const auto [x, y] = global_batch(0);
      loss_of(global, x, y).backward();
      loss_of(net, tenfold::local_batch(x, rank, 3), tenfold::local_batch(y, rank, 3)).backward();
      const Tensors parameters = net->parameters();
      const auto buckets = tenfold::assign_buckets(parameters, {512, 4096});
      const auto traffic = bucketed ? tenfold::average_in_buckets(parameters, buckets, *group)
                                    : tenfold::average_each(parameters, *group);
      EXPECT_EQ(traffic.payload_bytes, parameter_bytes());
      EXPECT_EQ(traffic.all_reduces, static_cast<int64_t>(bucketed ? buckets.size() : parameters.size()));
      for (size_t i = 0; i < parameters.size(); ++i)
        EXPECT_TRUE(torch::allclose(parameters[i].grad(), global->parameters()[i].grad(), 1e-5, 1e-7));
    });
  }
}

TEST(Ddp, SeveralDataTypesTravelInBucketsOfTheirOwn) {
  const auto parameters = Tensors{torch::zeros({4}), torch::zeros({4}, torch::kDouble), torch::zeros({4}),
                                  torch::zeros({4}, torch::kBFloat16)};
  const auto buckets = tenfold::assign_buckets(parameters, {});
  ASSERT_EQ(buckets.size(), 3u);
  for (const auto& members : buckets) {
    for (const size_t i : members) EXPECT_EQ(parameters[i].scalar_type(), parameters[members[0]].scalar_type());
  }

  on_ranks(2, [](int rank, const Group& group) {
    Net net = net_with(1);
    net->last->to(torch::kDouble);
    tenfold::DistributedDataParallel ddp(*net, group);
    const Tensor x = torch::full({2, 5}, rank + 1.0);
    net->last(torch::tanh(net->wide(torch::tanh(net->first(x)))).to(torch::kDouble)).sum().backward();
    ddp.finish();
    EXPECT_EQ(net->last->weight.grad().scalar_type(), torch::kDouble);
    EXPECT_EQ(net->last->bias.grad()[0].item<double>(), 2);
  });
}

TEST(Ddp, BucketsAreThoseOfPyTorch) {
  Tensors parameters = Net()->parameters();
  for (int i = 0; i < 7; ++i) parameters.push_back(torch::zeros({i % 3 * 50 + 1}));
  for (const auto& options : kOptions) {
    auto theirs = std::get<0>(c10d::compute_bucket_assignment_by_size(
        {parameters.rbegin(), parameters.rend()},
        {static_cast<size_t>(options.first_bucket_bytes), static_cast<size_t>(options.bucket_bytes)}));
    for (auto& bucket : theirs) {
      for (size_t& i : bucket) i = parameters.size() - 1 - i;
    }
    EXPECT_EQ(tenfold::assign_buckets(parameters, options), theirs);
  }
}

TEST(Ddp, EqualsPyTorchsReducer) {
  for (const int world_size : {2, 3}) {
    const Trained ours = trained_together(world_size, {512, 4096});
    on_ranks(world_size, [&](int rank, const Group& group) {
      Net net = net_with(1);
      auto optimizer = sgd(net);
      const auto reducer = tenfold::pytorch_reducer(net->parameters(), group, {512, 4096});
      for (int step = 0; step < kSteps; ++step) {
        const auto [x, y] = global_batch(step);
        optimizer.zero_grad();
        tenfold::prepare_step(*reducer);
        loss_of(net, tenfold::local_batch(x, rank, world_size), tenfold::local_batch(y, rank, world_size)).backward();
        optimizer.step();
      }
      const Tensors theirs = net->parameters();
      for (size_t i = 0; i < theirs.size(); ++i) {
        // A rebuilt bucket's ring may add in another order, and once in a while a matmul beside other threads rounds
        // otherwise. A forgotten division moves the weights by 1e-2 and more.
        const double difference = (theirs[i] - ours.ranks[static_cast<size_t>(rank)][i]).abs().max().item<double>();
        EXPECT_LE(difference, 1e-6);
      }
    });
  }
}

TEST(Ddp, AnUnusedParameterIsNamedAndNobodyHangs) {
  const auto begin = std::chrono::steady_clock::now();
  on_ranks(2, [](int rank, const Group& group) {
    Net net = net_with(1);
    tenfold::DistributedDataParallel ddp(*net, group, {1, 1});
    net->wide(torch::tanh(net->first(torch::ones({2, 5})))).sum().backward();  // without "last"
    const std::string message = tenfold::test::message_of<c10::Error>([&] { ddp.finish(); });
    EXPECT_NE(message.find("last.weight, last.bias"), std::string::npos) << message;
    EXPECT_EQ(message.find("first.weight"), std::string::npos) << message;
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(Ddp, AfterTheErrorAWholeStepWorks) {
  on_ranks(2, [](int rank, const Group& group) {
    Net net = net_with(1);
    tenfold::DistributedDataParallel ddp(*net, group);
    net->wide(torch::tanh(net->first(torch::ones({2, 5})))).sum().backward();
    EXPECT_NE(tenfold::test::message_of<c10::Error>([&] { ddp.finish(); }).find("last.weight"), std::string::npos);
    net->zero_grad();
    net(torch::full({2, 5}, rank + 1.0)).sum().backward();
    ddp.finish();
    EXPECT_EQ(net->last->bias.grad()[0].item<float>(), 2);
  });
}

TEST(Ddp, AForgottenFinishIsAnError) {
  on_ranks(2, [](int, const Group& group) {
    Net net = net_with(1);
    tenfold::DistributedDataParallel ddp(*net, group);
    net(torch::ones({2, 5})).sum().backward();
    const std::string message =
        tenfold::test::message_of<c10::Error>([&] { net(torch::ones({2, 5})).sum().backward(); });
    EXPECT_NE(message.find("call finish() after each backward()"), std::string::npos) << message;
  });
}

TEST(Ddp, FrozenAndTiedParameters) {
  on_ranks(2, [](int rank, const Group& group) {
    Net net = net_with(static_cast<uint64_t>(rank) + 1);
    net->first->weight.requires_grad_(false);
    net->register_module("again", net->last);  // the same tensors under another name
    tenfold::DistributedDataParallel ddp(*net, group);
    EXPECT_TRUE(torch::equal(net->first->weight, net_with(1)->first->weight));
    net(torch::ones({2, 5})).sum().backward();
    ddp.finish();
    EXPECT_FALSE(net->first->weight.grad().defined());
    EXPECT_EQ(ddp.traffic().payload_bytes, parameter_bytes() - 40 * 5 * 4);
  });
}

TEST(Ddp, DifferentModelsAreRefusedOnEveryRank) {
  on_ranks(2, [](int rank, const Group& group) {
    torch::nn::Linear linear(3, 4 + rank);
    const std::string message =
        tenfold::test::message_of<c10::Error>([&] { tenfold::DistributedDataParallel ddp(*linear, group); });
    EXPECT_NE(message.find("models differ"), std::string::npos) << message;
  });
}

/// The message with which every rank refuses its module. No rank may hang or be aborted.
std::vector<std::string> refusals(int world_size, const std::function<std::shared_ptr<torch::nn::Module>(int)>& make) {
  std::vector<std::string> messages(static_cast<size_t>(world_size));
  const auto begin = std::chrono::steady_clock::now();
  on_ranks(world_size, [&](int rank, const Group& group) {
    const auto module = make(rank);
    messages[static_cast<size_t>(rank)] =
        tenfold::test::message_of<c10::ValueError>([&] { const tenfold::DistributedDataParallel ddp(*module, group); });
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15)) << "no rank waits for the time-out";
  return messages;
}

TEST(Ddp, BuffersAndFrozenParametersThatDifferAreRefusedOnEveryRank) {
  const auto expect_refused = [](const std::string& what, const std::function<void(Net&)>& change) {
    for (const int odd : {0, 2}) {
      const auto messages = refusals(3, [&](int rank) {
        Net net = net_with(1);
        if (rank == odd) change(net);
        return net.ptr();
      });
      for (const std::string& message : messages)
        EXPECT_NE(message.find("the ranks' models differ"), std::string::npos) << what << ": " << message;
      EXPECT_NE(messages[static_cast<size_t>(odd)].find(what), std::string::npos) << messages[static_cast<size_t>(odd)];
    }
  };
  expect_refused("buffer 'scale' [4] Float", [](Net& net) { net->scale.set_data(torch::ones({4})); });
  expect_refused("buffer 'scale' [1] Double", [](Net& net) { net->scale.set_data(torch::ones({1}, torch::kDouble)); });
  expect_refused("buffer 'mask' [2] Bool",
                 [](Net& net) { net->register_buffer("mask", torch::ones({2}, torch::kBool)); });
  expect_refused("parameter 'first.weight' [40, 5] Float, frozen",
                 [](Net& net) { net->first->weight.requires_grad_(false); });
  expect_refused("parameter 'again.weight' [3, 33] Float, the same as 'last.weight'",
                 [](Net& net) { net->register_module("again", net->last); });
  expect_refused("parameter 'first.weight' [40, 5] Double, frozen", [](Net& net) {
    net->first->weight.requires_grad_(false);
    net->first->weight.set_data(net->first->weight.to(torch::kDouble));
  });
}

TEST(Ddp, ATieOnOneRankAloneIsRefused) {
  const auto messages = refusals(2, [](int rank) {
    Net net = net_with(1);
    net->register_module("again", rank == 0 ? net->last : torch::nn::Linear(33, 3));
    return net.ptr();
  });
  EXPECT_NE(messages[0].find("the same as 'last.weight'"), std::string::npos) << messages[0];
  EXPECT_NE(messages[1].find("'again.weight' [3, 33] Float"), std::string::npos) << messages[1];
}

TEST(Ddp, WhatOneRankObjectsToEndsAllOfThem) {
  const auto messages = refusals(2, [](int rank) {
    Net net = net_with(1);
    if (rank == 1) {
      for (Tensor& parameter : net->parameters()) parameter.requires_grad_(false);
    }
    return net.ptr();
  });
  EXPECT_NE(messages[1].find("no trainable parameters"), std::string::npos) << messages[1];
  EXPECT_NE(messages[0].find("another rank cannot train its model"), std::string::npos) << messages[0];
}

TEST(Ddp, BuffersOfEveryKindAreBroadcast) {
  on_ranks(2, [](int rank, const Group& group) {
    Net net = net_with(1);
    net->register_buffer("mask", torch::full({3, 3}, rank == 0, torch::kBool));
    net->register_buffer("count", torch::full({}, rank + 7, torch::kLong));
    net->register_buffer("nothing", torch::empty({0}));
    net->register_buffer("undefined", Tensor());
    const tenfold::DistributedDataParallel ddp(*net, group);
    EXPECT_TRUE(net->named_buffers()["mask"].all().item<bool>());
    EXPECT_EQ(net->named_buffers()["count"].item<int64_t>(), 7);
  });
}

/// One backward() of ones, without finish().
void backward_of(Net& net, int rank) { net(torch::full({2, 5}, rank + 1.0)).sum().backward(); }

TEST(Ddp, WhatIsThawedOrAddedLaterIsNamed) {
  on_ranks(2, [](int rank, const Group& group) {
    Net net = net_with(1);
    net->first->weight.requires_grad_(false);
    net->wide->bias.requires_grad_(false);
    tenfold::DistributedDataParallel ddp(*net, group);
    backward_of(net, rank);
    ddp.finish();
    net->first->weight.requires_grad_(true);
    net->register_parameter("later", torch::ones({2}));
    backward_of(net, rank);
    const std::string message = tenfold::test::message_of<c10::Error>([&] { ddp.finish(); });
    EXPECT_NE(message.find("thawed or added since DistributedDataParallel was made: later, first.weight;"),
              std::string::npos)
        << message;
    net->unregister_module("last");  // what is only moved out of the module's sight is trained as before
    net->first->weight.requires_grad_(false);
    net->named_parameters()["later"].requires_grad_(false);
    net->zero_grad();
    net->last->zero_grad();
    backward_of(net, rank);
    ddp.finish();
    EXPECT_EQ(net->last->bias.grad()[0].item<float>(), 2);
  });
}

TEST(Ddp, WhatIsFrozenLaterIsNamed) {
  on_ranks(2, [](int rank, const Group& group) {
    Net net = net_with(1);
    tenfold::DistributedDataParallel ddp(*net, group);
    net->wide->weight.requires_grad_(false);
    backward_of(net, rank);
    const std::string message = tenfold::test::message_of<c10::Error>([&] { ddp.finish(); });
    EXPECT_NE(message.find("frozen since DistributedDataParallel was made: wide.weight; make a new one"),
              std::string::npos)
        << message;
  });
}

/// Identity whose backward() throws.
struct Throws : torch::autograd::Function<Throws> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "out of memory");
  }
};

/// After the layer "last" has its gradient, before any other has.
void backward_that_throws(Net& net) {
  EXPECT_THROW(net->last(Throws::apply(net->wide(net->first(torch::ones({2, 5}))))).sum().backward(),
               c10::OutOfMemoryError);
}

TEST(Ddp, AfterABackwardThatThrewResetStartsAfresh) {
  for (const tenfold::DdpOptions& options : kOptions) {
    on_ranks(2, [&](int rank, const Group& group) {
      Net net = net_with(1);
      tenfold::DistributedDataParallel ddp(*net, group, options);
      for (int time = 0; time < 2; ++time) {
        // Where each rank stopped is its own matter: nothing was computed, one layer, all.
        if (rank == 0) backward_that_throws(net);
        if (rank == 1 && time == 1) backward_of(net, rank);
        ddp.reset();
        net->zero_grad();
        backward_of(net, rank);
        ddp.finish();
        EXPECT_EQ(net->last->bias.grad()[0].item<float>(), 2);
        EXPECT_TRUE(net->first->weight.grad().isfinite().all().item<bool>());
        net->zero_grad();
      }
    });
  }
}

TEST(Ddp, WithoutResetTheBackwardThatThrewIsNamed) {
  on_ranks(2, [](int rank, const Group& group) {
    Net net = net_with(1);
    tenfold::DistributedDataParallel ddp(*net, group);
    backward_that_throws(net);
    const std::string of_finish = tenfold::test::message_of<c10::Error>([&] { ddp.finish(); });
    EXPECT_NE(of_finish.find("backward() threw: call reset() on every rank"), std::string::npos) << of_finish;
    net->zero_grad();
    const std::string next = tenfold::test::message_of<c10::Error>([&] { backward_of(net, rank); });
    EXPECT_NE(next.find("the backward() before this one threw: call reset()"), std::string::npos) << next;
    ddp.reset();
    net->zero_grad();
    backward_of(net, rank);
    ddp.finish();
    EXPECT_EQ(net->last->bias.grad()[0].item<float>(), 2);
  });
}

TEST(Ddp, WhoFinishesWhileAnotherResetsSeesNaN) {
  on_ranks(2, [](int rank, const Group& group) {
    Net net = net_with(1);
    tenfold::DistributedDataParallel ddp(*net, group, {1, 1});
    if (rank == 0) {
      backward_that_throws(net);
      ddp.reset();
    } else {
      backward_of(net, rank);
      ddp.finish();
      EXPECT_TRUE(net->first->weight.grad().isnan().all().item<bool>());
    }
  });
}

/// Layers that keep their width, so that one may follow itself.
struct SquareImpl : torch::nn::Module {
  SquareImpl() : first(5, 5), second(5, 5) {
    register_module("first", first);
    register_module("second", second);
    torch::NoGradGuard no_grad;
    auto generator = at::detail::createCPUGenerator(1);
    for (const Tensor& parameter : parameters()) parameter.normal_(0, 0.3, generator);
  }
  Tensor forward(const Tensor& x) { return second(torch::tanh(first(x))); }
  torch::nn::Linear first, second;
};
TORCH_MODULE(Square);

Tensor input_of(int rank) { return torch::full({2, 5}, rank + 1.0).set_requires_grad(true); }

TEST(Ddp, ParametersOfTwoRecomputedBlocksAreNamedAsSuch) {
  using tenfold::checkpoint;
  const auto twice = [](Square& net, const Tensor& x) { return checkpoint(net, checkpoint(net, x)); };
  const auto then_plain = [](Square& net, const Tensor& x) { return net->forward(checkpoint(net, x)); };
  const auto within = [](Square& net, const Tensor& x) {
    return checkpoint([net](const Tensor& y) mutable { return checkpoint(net, checkpoint(net, y)); }, x);
  };
  const std::function<Tensor(Square&, const Tensor&)> all[] = {twice, then_plain, within};
  for (const auto& forward : all) {
    on_ranks(2, [&](int rank, const Group& group) {
      Square net;
      tenfold::DistributedDataParallel ddp(*net, group);
      const std::string message =
          tenfold::test::message_of<c10::Error>([&] { forward(net, input_of(rank)).sum().backward(); });
      EXPECT_NE(message.find("in one backward(): more than one recomputed (checkpointed) block uses it"),
                std::string::npos)
          << message;
      ddp.reset();

      // The way that the message names.
      net->zero_grad();
      {
        const tenfold::NoSync no_sync(ddp);
        forward(net, input_of(rank)).sum().backward();
      }
      tenfold::average_in_buckets(net->parameters(), tenfold::assign_buckets(net->parameters(), {}), *group);
      Square alone;
      ((forward(alone, input_of(0)).sum() + forward(alone, input_of(1)).sum()) / 2).backward();
      for (size_t i = 0; i < net->parameters().size(); ++i)
        EXPECT_TRUE(torch::allclose(net->parameters()[i].grad(), alone->parameters()[i].grad()));
    });
  }
}

TEST(Ddp, BlocksRecomputedOnceAreNoSecondGradient) {
  using tenfold::checkpoint;
  on_ranks(2, [](int rank, const Group& group) {
    Square net;
    tenfold::DistributedDataParallel ddp(*net, group, {1, 1});
    const auto nested = [net](const Tensor& y) mutable { return checkpoint(net, y); };
    for (int step = 0; step < 2; ++step) {
      net->zero_grad();
      checkpoint(nested, input_of(rank)).sum().backward();
      ddp.finish();
    }
    Square alone;
    ((alone->forward(input_of(0)).sum() + alone->forward(input_of(1)).sum()) / 2).backward();
    for (size_t i = 0; i < net->parameters().size(); ++i)
      EXPECT_TRUE(torch::allclose(net->parameters()[i].grad(), alone->parameters()[i].grad()));

    // All of its gradients came from within: whether the outermost backward() is over is known all the same.
    checkpoint(net, input_of(rank)).sum().backward();
    const std::string message =
        tenfold::test::message_of<c10::Error>([&] { checkpoint(net, input_of(rank)).sum().backward(); });
    EXPECT_NE(message.find("call finish() after each backward()"), std::string::npos) << message;
    ddp.reset();
    const auto throwing = [net](const Tensor& y) mutable { return checkpoint(net, Throws::apply(y * y)); };
    EXPECT_THROW(checkpoint(throwing, input_of(rank)).sum().backward(), c10::OutOfMemoryError);
    const std::string next =
        tenfold::test::message_of<c10::Error>([&] { checkpoint(net, input_of(rank)).sum().backward(); });
    EXPECT_NE(next.find("the backward() before this one threw"), std::string::npos) << next;
  });
}

TEST(Ddp, LeavesNoHooksBehind) {
  on_ranks(2, [](int, const Group& group) {
    Net net = net_with(1);
    {
      const tenfold::DistributedDataParallel ddp(*net, group);
    }
    net(torch::ones({2, 5})).sum().backward();
    EXPECT_TRUE(net->last->weight.grad().defined());
  });
}

TEST(Ddp, WeightsWithStridesOfTheirOwn) {
  on_ranks(2, [](int rank, const Group& group) {
    torch::nn::Conv2d conv(torch::nn::Conv2dOptions(3, 4, 3));
    conv->to(torch::kFloat);
    {
      torch::NoGradGuard no_grad;
      conv->weight.set_data(
          torch::arange(108.0F).view({4, 3, 3, 3}).add(rank).contiguous(at::MemoryFormat::ChannelsLast));
    }
    tenfold::DistributedDataParallel ddp(*conv, group);
    EXPECT_TRUE(torch::equal(conv->weight, torch::arange(108.0F).view({4, 3, 3, 3})));
    const Tensor weights = torch::arange(108.0F).view({4, 3, 3, 3});
    ((conv->weight * weights).sum() * (rank + 1) + conv->bias.sum()).backward();
    ddp.finish();
    EXPECT_TRUE(torch::allclose(conv->weight.grad(), 1.5 * weights));
  });
}

/// Convolutions whose weights lie in channels_last, as lesson 22 lays them.
torch::nn::Sequential channels_last_net() {
  torch::nn::Sequential net(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)), torch::nn::Tanh(),
                            torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 2, 2)));
  const torch::NoGradGuard no_grad;
  const auto generator = at::detail::createCPUGenerator(3);
  for (const Tensor& parameter : net->parameters()) {
    parameter.normal_(0, 0.3, generator);
    if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
  }
  return net;
}

// A fused step, which goes through memory as it lies: with a gradient laid out otherwise it is another step on a CPU,
// and refused on a GPU.
void fused_step(const torch::nn::Sequential& net) {
  const torch::NoGradGuard no_grad;
  Tensors gradients;
  for (const Tensor& parameter : net->parameters()) gradients.push_back(parameter.grad());
  at::_fused_sgd_(net->parameters(), gradients, /*momentum_buffer_list=*/{}, /*weight_decay=*/0, /*momentum=*/0,
                  /*lr=*/0.1, /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false);
}

TEST(Ddp, GradientsLieAsTheirParameters) {
  const Tensor x = torch::randn({4, 3, 6, 6}, at::detail::createCPUGenerator(4));
  const auto update = [&](torch::nn::Sequential& net, const Tensor& rows, const std::function<void()>& finish) {
    net->zero_grad();
    net->forward(rows.contiguous(at::MemoryFormat::ChannelsLast)).square().mean().backward();
    finish();
    fused_step(net);
  };
  torch::nn::Sequential alone = channels_last_net();
  for (int step = 0; step < kSteps; ++step) update(alone, x, [] {});
  EXPECT_GT(largest_difference(alone->parameters(), channels_last_net()->parameters()), 1e-2) << "nothing was trained";
  const tenfold::DdpOptions copied, views{.gradients_are_views = true}, rounded{.sent_as = torch::kBFloat16};
  for (const tenfold::DdpOptions& options : {copied, views, rounded}) {
    on_ranks(2, [&](int rank, const Group& group) {
      torch::nn::Sequential net = channels_last_net();
      tenfold::DistributedDataParallel ddp(*net, group, options);
      const auto finish = [&] {
        ddp.finish();
        for (const Tensor& p : net->parameters()) EXPECT_EQ(p.grad().strides(), p.strides());
      };
      for (int step = 0; step < kSteps; ++step) update(net, tenfold::local_batch(x, rank, 2), finish);
      // bf16 rounds gradients below 1 by 2^-9 and their sum by as much, and steps are a tenth of them.
      const double tolerance = options.sent_as ? 0.1 * kSteps * 2 / 512 : 1e-6;
      EXPECT_LT(largest_difference(net->parameters(), alone->parameters()), tolerance);
    });
  }
}

// Buckets are summed as they lie.
TEST(Ddp, AnotherMemoryFormatOnOneRankIsRefused) {
  const auto messages = refusals(2, [](int rank) {
    const torch::nn::Sequential net = channels_last_net();
    const Tensor weight = net->parameters()[0];
    if (rank == 1) weight.set_data(weight.contiguous());
    return net.ptr();
  });
  EXPECT_NE(messages[0].find("[4, 3, 3, 3] Float, strides [27, 1, 9, 3]"), std::string::npos) << messages[0];
  EXPECT_NE(messages[1].find("the ranks' models differ"), std::string::npos) << messages[1];
}

TEST(Ddp, PartsAreEqualOrRefused) {
  const Tensor batch = torch::arange(6);
  EXPECT_TRUE(torch::equal(tenfold::local_batch(batch, 1, 3), torch::tensor({2, 3}, torch::kLong)));
  EXPECT_THROW(tenfold::local_batch(batch, 0, 4), c10::ValueError);
}

TEST(DistributedSampler, EveryRankDrawsEquallyManyAndTogetherAll) {
  for (const int64_t size : {7, 8, 9}) {
    Tensors all;
    for (int rank = 0; rank < 3; ++rank)
      all.push_back(tenfold::indices_of_rank(size, rank, 3, /*seed=*/5, /*epoch=*/0));
    for (const Tensor& one : all) EXPECT_EQ(one.size(0), (size + 2) / 3);
    const auto seen = std::get<0>(at::_unique(torch::cat(all)));
    EXPECT_TRUE(torch::equal(seen, torch::arange(size)));
  }
  EXPECT_FALSE(torch::equal(tenfold::indices_of_rank(100, 0, 2, 5, 0), tenfold::indices_of_rank(100, 0, 2, 5, 1)));
  EXPECT_THROW(tenfold::indices_of_rank(2, 0, 3, 0, 0), c10::ValueError);
}

TEST(DistributedSampler, WhatIsFilledUpStandsLastAndIsKnown) {
  for (const int64_t size : {7, 8, 9}) {
    Tensors first_visits;
    for (int rank = 0; rank < 3; ++rank) {
      const Tensor own = tenfold::indices_of_rank(size, rank, 3, /*seed=*/5, /*epoch=*/0);
      first_visits.push_back(own.narrow(0, 0, tenfold::samples_of_rank(size, rank, 3)));
    }
    const Tensor all = std::get<0>(torch::cat(first_visits).sort());
    EXPECT_TRUE(torch::equal(all, torch::arange(size))) << size << " samples, each once";
  }
  EXPECT_THROW(tenfold::samples_of_rank(2, 0, 3), c10::ValueError);
}

TEST(Metrics, OnlySumsOfEachSampleOnceAreOneProcesses) {
  using tenfold::Reduction;
  const Tensor of_sample = torch::arange(1, 11, torch::kDouble).square();  // (10): on 4 ranks two are dealt out twice
  const double one_process = of_sample.mean().item<double>();
  on_ranks(4, [&](int rank, const Group& group) {
    const auto reported = [&](Reduction how) { return tenfold::evaluated(of_sample, {rank, 4}, 2, how, *group); };
    EXPECT_NEAR(reported(Reduction::each_once), one_process, 1e-12);
    EXPECT_GT(std::abs(reported(Reduction::padding_counted) - one_process), 0.1);
    EXPECT_GT(std::abs(reported(Reduction::mean_of_means) - one_process), 0.1);
    // Where nothing is filled up and batches are equal, all three are the same.
    const Tensor even = of_sample.narrow(0, 0, 8);
    for (const Reduction how : {Reduction::mean_of_means, Reduction::padding_counted, Reduction::each_once})
      EXPECT_NEAR(tenfold::evaluated(even, {rank, 4}, 2, how, *group), even.mean().item<double>(), 1e-12);
  });
}

}  // namespace
