// Groups that count what is asked of c10d, and meshes of them: ranks are threads over real Gloo.
#include <gtest/gtest.h>

#include <torch/torch.h>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <cmath>
#include <map>

#include "common/ranks/counted_backend.h"
#include "common/ranks/process_group.h"
#include "common/ranks/rank_threads.h"

#include "tests/support/support.h"

namespace {

using tenfold::RequestCounter;
using torch::Tensor;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
using Counts = std::map<std::string, tenfold::Requests>;

tenfold::World world_of(int rank, int size, const Group& group) {
  tenfold::World world;
  world.ranks.rank = rank;
  world.ranks.world_size = size;
  world.backend = "gloo";
  world.store = group->getStore();
  world.group = group;
  world.timeout = std::chrono::seconds(30);
  return world;
}

Tensor numbers(int rank, int64_t count) {
  return at::randn({count}, at::detail::createCPUGenerator(static_cast<uint64_t>(rank) + 1));
}

/// What every collective leaves on one rank of a group.
std::vector<Tensor> results_of_all_collectives(const Group& group) {
  const int rank = group->getRank(), size = group->getSize();
  std::vector<Tensor> results;
  const auto keep = [&](const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) results.push_back(tensor.clone());
  };
  std::vector<Tensor> one{numbers(rank, 100)};
  group->allreduce(one)->wait();
  keep(one);
  std::vector<Tensor> two{numbers(rank, 8), numbers(rank + 10, 4)};
  group->allreduce_coalesced(two)->wait();
  keep(two);
  one = {numbers(rank, 30)};
  group->broadcast(one)->wait();
  keep(one);
  one = {numbers(rank, 6)};
  group->reduce(one)->wait();
  if (rank == 0) keep(one);
  std::vector<Tensor> inputs{numbers(rank, 5)};
  std::vector<std::vector<Tensor>> lists(1);
  for (int i = 0; i < size; ++i) lists[0].push_back(torch::empty({5}));
  group->allgather(lists, inputs)->wait();
  keep(lists[0]);
  Tensor part = numbers(rank, 7), whole = torch::empty({7 * size});
  group->_allgather_base(whole, part)->wait();
  keep({whole});
  whole = numbers(rank, 9 * size), part = torch::empty({9});
  group->_reduce_scatter_base(part, whole)->wait();
  keep({part});
  Tensor given = numbers(rank, 3 * size), got = torch::empty({3 * size});
  std::vector<int64_t> even;
  group->alltoall_base(got, given, even, even)->wait();
  keep({got});
  one = {numbers(rank, 11)};
  std::vector<Tensor> received{torch::empty({11})};
  const auto sent = group->send(one, (rank + 1) % size, 0), came = group->recv(received, (rank + size - 1) % size, 0);
  sent->wait();
  came->wait();
  keep(received);
  tenfold::thread_barrier(*group);
  return results;
}

TEST(CountedGroup, ResultsAreThoseOfThePlainGroupAndEveryCollectiveIsCounted) {
  constexpr int kRanks = 3;
  tenfold::on_rank_threads(kRanks, std::chrono::seconds(30), [&](int, const Group& group) {
    const auto counter = std::make_shared<RequestCounter>();
    const Group counted = tenfold::counted_group(group, counter);
    const auto plain = results_of_all_collectives(group);
    EXPECT_TRUE(counter->take().empty()) << "the plain group's requests are nobody's business";
    const auto found = results_of_all_collectives(counted);
    ASSERT_EQ(found.size(), plain.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(torch::equal(found[i], plain[i])) << "result " << i;

    Counts counts = counter->take();
    const auto expect = [&](const char* collective, int64_t calls, int64_t floats) {
      EXPECT_EQ(counts[collective].calls, calls) << collective;
      EXPECT_EQ(counts[collective].bytes, 4 * floats) << collective;
      counts.erase(collective);
    };
    expect("all_reduce", 2, 100 + 8 + 4);
    expect("broadcast", 1, 30);
    expect("reduce", 1, 6);
    expect("all_gather", 2, kRanks * (5 + 7));
    expect("reduce_scatter", 1, 9 * kRanks);
    expect("all_to_all", 1, 3 * kRanks);
    expect("send", 1, 11);
    expect("barrier", 1, 0);
    EXPECT_TRUE(counts.empty()) << counts.begin()->first;
    EXPECT_TRUE(counter->take().empty());
    EXPECT_EQ(counted->getBackendName(), group->getBackendName());
    EXPECT_EQ(counted->getBackend(c10::DeviceType::CPU)->getBackendName(), "gloo");
  });
}

// Many works on their way at once, waited for in another order than they were asked for.
TEST(CountedGroup, WorksMayOverlap) {
  tenfold::on_rank_threads(2, std::chrono::seconds(30), [&](int rank, const Group& group) {
    const auto counter = std::make_shared<RequestCounter>();
    const Group counted = tenfold::counted_group(group, counter);
    std::vector<std::vector<Tensor>> tensors;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (int i = 0; i < 50; ++i) tensors.push_back({torch::full({1000}, 1.0 * rank + i)});
    for (auto& one : tensors) works.push_back(counted->allreduce(one));
    for (size_t i = works.size(); i-- > 0;) {
      works[i]->wait();
      EXPECT_EQ(tensors[i][0][999].item<double>(), 2.0 * static_cast<double>(i) + 1);
      EXPECT_TRUE(works[i]->getFuture()->completed());
    }
    EXPECT_EQ(counter->take()["all_reduce"].bytes, 50 * 4000);
  });
}

TEST(CountedGroup, AGroupMadeFromItCountsAsWell) {
  tenfold::on_rank_threads(2, std::chrono::seconds(30), [&](int rank, const Group& group) {
    const auto counter = std::make_shared<RequestCounter>();
    const auto counted = tenfold::counted_group(group, counter)->getBackend(c10::DeviceType::CPU);
    const auto store = c10::make_intrusive<c10d::PrefixStore>("merge", group->getStore());
    const auto made = counted->merge(store, counted->getBackendOptions(), rank, 2);
    std::vector<Tensor> one{torch::full({10}, 1.0 + rank)};
    made->allreduce(one)->wait();
    EXPECT_EQ(one[0][0].item<double>(), 3);
    EXPECT_EQ(counter->take()["all_reduce"].bytes, 40);
  });
}

TEST(CountedGroup, WhatTheBackendCannotDoIsSaidByTheBackend) {
  tenfold::on_rank_threads(2, std::chrono::seconds(30), [&](int, const Group& group) {
    const auto counted =
        tenfold::counted_group(group, std::make_shared<RequestCounter>())->getBackend(c10::DeviceType::CPU);
    const auto plain = group->getBackend(c10::DeviceType::CPU);
    EXPECT_EQ(counted->supportsCoalescing(), plain->supportsCoalescing());
    const auto why = [](const auto& backend) {
      return tenfold::test::message_of<c10::Error>([&] { backend->startCoalescing(); });
    };
    EXPECT_FALSE(why(plain).empty());
    EXPECT_EQ(why(counted), why(plain));
  });
}

// PyTorch's engine: its hooks ask for the all-reduces from within backward().
TEST(CountedGroup, TheReducerTrainsThroughIt) {
  constexpr int kRanks = 2, kSteps = 4;
  const auto train = [&](int rank, const Group& group) {
    torch::nn::Sequential net(torch::nn::Linear(6, 40), torch::nn::Tanh(), torch::nn::Linear(40, 2));
    const auto parameters = net->parameters();
    {
      torch::NoGradGuard no_grad;
      for (size_t i = 0; i < parameters.size(); ++i)
        parameters[i].copy_(numbers(static_cast<int>(i), parameters[i].numel()).view_as(parameters[i]) / 4);
    }
    auto reducer = std::make_shared<c10d::Reducer>(parameters, std::vector<std::vector<size_t>>{{3, 2}, {1, 0}}, group,
                                                   std::vector<bool>(parameters.size(), false), int64_t{1} << 20, false,
                                                   false, std::unordered_map<size_t, std::string>{}, int64_t{1} << 10,
                                                   false, false, std::vector<int64_t>{});
    torch::optim::SGD optimizer(parameters, 0.1);
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      reducer->rebuild_buckets();
      reducer->prepare_for_forward();
      const Tensor loss = net->forward(numbers(10 * rank + step, 30).view({5, 6})).pow(2).mean();
      reducer->prepare_for_backward({});
      loss.backward();
      optimizer.step();
    }
    return torch::nn::utils::parameters_to_vector(parameters).detach();
  };
  tenfold::on_rank_threads(kRanks, std::chrono::seconds(30), [&](int rank, const Group& group) {
    const auto counter = std::make_shared<RequestCounter>();
    const Tensor plain = train(rank, group), counted = train(rank, tenfold::counted_group(group, counter));
    // Not bit for bit: once in a while a matrix product rounds otherwise in the second training.
    EXPECT_LT((plain - counted).abs().max().item<double>(), 1e-6);
    const Counts counts = counter->take();
    ASSERT_TRUE(counts.contains("all_reduce"));
    EXPECT_GE(counts.at("all_reduce").bytes, kSteps * 4 * plain.numel());
  });
}

// The first rank that is connected has nothing to do, and ends while the last one is still connecting.
TEST(RankThreads, ThatEndAtOnceLeaveNoneUnconnected) {
  for (int round = 0; round < 40; ++round) {
    std::atomic<int> ended = 0;
    tenfold::on_rank_threads(6, std::chrono::seconds(30), [&](int, const Group&) { ++ended; });
    EXPECT_EQ(ended, 6);
  }
}

TEST(Mesh, DimensionsAreFromTheSlowestToTheFastest) {
  constexpr int kRanks = 4;
  tenfold::on_rank_threads(kRanks, std::chrono::seconds(30), [&](int rank, const Group& group) {
    const tenfold::Mesh mesh = make_mesh(world_of(rank, kRanks, group), {{"dp", 2}, {"tp", 2}, {"pp", 1}});
    const auto &dp = mesh.along("dp"), &tp = mesh.along("tp"), &pp = mesh.along("pp");
    EXPECT_EQ(dp.index, rank / 2);
    EXPECT_EQ(tp.index, rank % 2);
    EXPECT_EQ(pp.index, 0);
    const auto sum = [&](const Group& along) {
      std::vector<Tensor> one{torch::full({1}, std::pow(10.0, rank))};
      along->allreduce(one)->wait();
      return one[0].item<double>();
    };
    // The ranks that met are the digits.
    EXPECT_EQ(sum(dp.group), rank % 2 == 0 ? 101 : 1010);
    EXPECT_EQ(sum(tp.group), rank < 2 ? 11 : 1100);
    EXPECT_EQ(sum(pp.group), std::pow(10.0, rank));
    EXPECT_EQ(dp.group->getRank(), dp.index);
  });
}

TEST(Mesh, OfOneRankHasNoGroups) {
  const tenfold::World alone;
  const tenfold::Mesh mesh = make_mesh(alone, {{"dp", 1}});
  EXPECT_FALSE(mesh.along("dp").group);
  EXPECT_EQ(tenfold::test::message_of<std::invalid_argument>([&] { mesh.along("tp"); }),
            "the mesh has no dimension 'tp'; it has dp");
}

TEST(Mesh, AWrongShapeIsRefusedInOneLine) {
  const tenfold::World alone;
  const auto why = [&](const tenfold::MeshShape& shape) {
    return tenfold::test::message_of<std::invalid_argument>([&] { make_mesh(alone, shape); });
  };
  EXPECT_EQ(why({{"dp", 2}, {"tp", 2}}), "mesh dp=2,tp=2 has 4 places, and there are 1 ranks");
  EXPECT_EQ(why({{"dp", 1}, {"dp", 1}}), "mesh dp=1,dp=1: two dimensions are called 'dp'");
  EXPECT_EQ(why({{"dp", 0}}), "mesh dp=0: dimension 'dp' has size 0");
  EXPECT_EQ(why({{"", 1}}), "mesh =1: a dimension has no name");
  EXPECT_EQ(why({{"dp", tenfold::kAllRanks}, {"tp", tenfold::kAllRanks}}),
            "mesh dp=all,tp=all: two dimensions take as many ranks as there are");
}

TEST(Mesh, ADimensionTakesWhatTheOthersLeave) {
  using tenfold::kAllRanks, tenfold::MeshShape, tenfold::RankNumbers, tenfold::rank_numbers, tenfold::shape_for;
  const MeshShape line = {{"dp", kAllRanks}}, plane = {{"dp", kAllRanks}, {"tp", 2}};
  EXPECT_EQ(tenfold::wrong_shape(plane), "");
  EXPECT_EQ(rank_numbers({}), (RankNumbers{.unit = 1, .as_many = false}));
  EXPECT_EQ(rank_numbers({{"dp", 2}, {"tp", 3}}), (RankNumbers{.unit = 6, .as_many = false}));
  EXPECT_EQ(rank_numbers(line), (RankNumbers{.unit = 1, .as_many = true}));
  EXPECT_EQ(rank_numbers(plane), (RankNumbers{.unit = 2, .as_many = true}));
  EXPECT_EQ(shape_for(line, 1), (MeshShape{{"dp", 1}}));
  EXPECT_EQ(shape_for(plane, 6), (MeshShape{{"dp", 3}, {"tp", 2}}));
  EXPECT_EQ(shape_for({{"dp", 2}, {"tp", 2}}, 4), (MeshShape{{"dp", 2}, {"tp", 2}}));
}

TEST(CountedGroups, AreMadeOnceAndTellTheRankThatAskedForMost) {
  constexpr int kRanks = 4;
  tenfold::on_rank_threads(kRanks, std::chrono::seconds(30), [&](int rank, const Group& group) {
    const tenfold::World world = world_of(rank, kRanks, group);
    tenfold::CountedGroups groups(world);
    const tenfold::Mesh all = groups.mesh({{"dp", kRanks}}), plane = groups.mesh({{"dp", 2}, {"tp", 2}});
    EXPECT_EQ(groups.mesh({{"dp", 2}, {"tp", 2}}).along("tp").group, plane.along("tp").group);
    EXPECT_NE(all.along("dp").group, plane.along("dp").group);

    std::vector<Tensor> one{torch::zeros({10})};
    groups.all_ranks()->allreduce(one)->wait();
    groups.restart();
    groups.all_ranks()->allreduce(one)->wait();
    all.along("dp").group->allreduce(one)->wait();
    if (rank >= 2) plane.along("tp").group->allreduce(one)->wait();
    const Counts counts = groups.most_requests(plane);
    ASSERT_EQ(counts.size(), 2U);
    EXPECT_EQ(counts.at("all_reduce").bytes, 80);
    EXPECT_EQ(counts.at("all_reduce").calls, 2);
    EXPECT_EQ(counts.at("all_reduce over tp").bytes, 40) << "ranks 2 and 3 alone";
    EXPECT_TRUE(groups.most_requests(plane).empty());
  });
}

TEST(World, TextAndNumbersOfOneRankReachAll) {
  tenfold::on_rank_threads(3, std::chrono::seconds(30), [&](int rank, const Group& group) {
    const tenfold::World world = world_of(rank, 3, group);
    EXPECT_EQ(world.text_from_rank(1, "from " + std::to_string(rank)), "from 1");
    EXPECT_EQ(world.text_from_rank(2, ""), "");
    EXPECT_EQ(world.texts_of_all(std::to_string(rank)), (std::vector<std::string>{"0", "1", "2"}));
    EXPECT_EQ(world.from_rank(2, 10.0 + rank), 12);
    EXPECT_EQ(world.first_rank(rank >= 1), 1);
    EXPECT_EQ(world.first_rank(true), 0);
    EXPECT_EQ(world.first_rank(false), -1);
  });
}

// A group as it is on GPUs, where CUDA tensors have a backend of their own: numbers between ranks still go over Gloo.
TEST(World, ControlNumbersGoOverGlooWhateverTheLessonsBackend) {
  tenfold::on_rank_threads(2, std::chrono::seconds(30), [&](int rank, const Group& group) {
    tenfold::World world = world_of(rank, 2, group);
    world.backend = "nccl";
    EXPECT_EQ(world.sum(rank + 1), 3);
    EXPECT_EQ(world.max(rank), 1);
    EXPECT_EQ(world.texts_of_all(rank == 0 ? "a" : "b"), (std::vector<std::string>{"a", "b"}));
    world.barrier();
  });
}

}  // namespace
