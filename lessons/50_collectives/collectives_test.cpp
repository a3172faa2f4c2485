#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "collectives.h"
#include "common/ranks/rank_threads.h"
#include "flat_training.h"
#include "message_costs.h"
#include "message_survey.h"
#include "prediction.h"

#include <chrono>
#include <cmath>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/support.h"

namespace tenfold {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using torch::Tensor;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

// A collective that waits for ever is cut off.
void on_ranks(int ranks, const std::function<void(int, const Group&)>& work) {
  on_rank_threads(ranks, std::chrono::seconds(20), work);
}

/// Whole numbers, another sequence on each rank: their sums are exact in 32 bits, whatever the order.
Tensor numbers_of(int rank, int64_t count) {
  return torch::arange(count).remainder(97).add(1000 * rank).to(torch::kFloat);
}

Tensor sum_over(int ranks, int64_t count) {
  Tensor sum = torch::zeros({count});
  for (int rank = 0; rank < ranks; ++rank) sum += numbers_of(rank, count);
  return sum;
}

constexpr int kRankNumbers[] = {1, 2, 3, 4, 5, 8};
// None, fewer than ranks, not divisible, divisible, more than a socket buffers.
constexpr int64_t kSizes[] = {0, 1, 3, 7, 1000, 4099, 200'003};

TEST(Collectives, EveryAllReduceLeavesTheSumOnEveryRank) {
  for (const int ranks : kRankNumbers) {
    on_ranks(ranks, [ranks](int rank, const Group& group) {
      for (const Algorithm algorithm : kAlgorithms) {
        for (const int64_t size : kSizes) {
          const Tensor tensor = numbers_of(rank, size);
          all_reduce_by(algorithm)(tensor, *group);
          EXPECT_TRUE(torch::equal(tensor, sum_over(ranks, size)))
              << name_of(algorithm) << ", rank " << rank << " of " << ranks << ", " << size << " numbers";
        }
      }
    });
  }
}

TEST(Collectives, ReduceScatterLeavesARanksOwnPartAndAllGatherSharesIt) {
  for (const int ranks : kRankNumbers) {
    on_ranks(ranks, [ranks](int rank, const Group& group) {
      for (const int64_t size : kSizes) {
        const Tensor sum = sum_over(ranks, size), tensor = numbers_of(rank, size);
        const Tensor part = ring_reduce_scatter(tensor, *group);
        EXPECT_TRUE(torch::equal(part, part_of(sum, rank, ranks))) << rank << " of " << ranks << ", " << size;
        EXPECT_TRUE(part.is_alias_of(tensor)) << "in place";
        const Tensor own = torch::full({size}, -1.0);
        part_of(own, rank, ranks).copy_(part_of(sum, rank, ranks));
        ring_all_gather(own, *group);
        EXPECT_TRUE(torch::equal(own, sum)) << rank << " of " << ranks << ", " << size;
      }
    });
  }
}

TEST(Collectives, RanksAgreeBitForBitWhateverTheOrderOfTheSum) {
  for (const int ranks : {3, 8}) {
    for (const Algorithm algorithm : kAlgorithms) {
      std::vector<Tensor> of_ranks(static_cast<size_t>(ranks));
      on_ranks(ranks, [&](int rank, const Group& group) {
        auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(rank));
        const Tensor tensor = torch::randn({5000}, generator);
        all_reduce_by(algorithm)(tensor, *group);
        of_ranks[static_cast<size_t>(rank)] = tensor;
      });
      Tensor exact = torch::zeros({5000}, torch::kDouble);
      for (int rank = 0; rank < ranks; ++rank)
        exact += torch::randn({5000}, at::detail::createCPUGenerator(static_cast<uint64_t>(rank))).to(torch::kDouble);
      for (const Tensor& tensor : of_ranks) EXPECT_TRUE(torch::equal(tensor, of_ranks[0])) << name_of(algorithm);
      // Seven additions of numbers below 20, each rounded to 24 bits: at most 7 times 20 times 2^-24.
      EXPECT_LT((of_ranks[0].to(torch::kDouble) - exact).abs().max().item<double>(), 7 * 20 * 0x1p-24);
    }
  }
}

TEST(Collectives, WorkInPlaceOnAnyShapeAndType) {
  on_ranks(3, [](int rank, const Group& group) {
    for (const Algorithm algorithm : kAlgorithms) {
      const Tensor whole = torch::full({4, 5, 3}, rank + 1, torch::kLong);
      all_reduce_by(algorithm)(whole, *group);
      EXPECT_TRUE(torch::equal(whole, torch::full({4, 5, 3}, 6, torch::kLong))) << name_of(algorithm);
      const Tensor half = torch::full({10}, rank + 1, torch::kHalf), rows = half.narrow(0, 2, 5);
      all_reduce_by(algorithm)(rows, *group);
      EXPECT_EQ(half.sum().item<float>(), 5 * 6 + 5 * (rank + 1)) << name_of(algorithm) << ": a part of a tensor";
      const Tensor weight = torch::ones({3}, torch::requires_grad());
      all_reduce_by(algorithm)(weight, *group);
      EXPECT_EQ(weight.sum().item<float>(), 9) << "a parameter is no operand of autograd here";
    }
  });
}

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

TEST(Collectives, RefuseATensorWithGaps) {
  on_ranks(2, [](int, const Group& group) {
    const Tensor columns = torch::ones({4, 4}).t();
    EXPECT_EQ(message_of([&] { ring_all_reduce(columns.narrow(1, 0, 2), *group); }),
              "ring_reduce_scatter needs a dense, contiguous tensor: its memory is what is sent");
  });
}

/// What two ranks say that do different things: neither hangs, and the process lives on.
std::vector<std::string> said_by_two(const std::function<void(int, const Group&)>& work) {
  std::vector<std::string> said(2);
  on_rank_threads(2, std::chrono::seconds(2), [&](int rank, const Group& group) {
    said[static_cast<size_t>(rank)] = message_of([&] { work(rank, group); });
  });
  return said;
}

TEST(Collectives, AnotherCollectiveOnTheOtherRankIsNamed) {
  const auto said = said_by_two([](int rank, const Group& group) {
    const Tensor tensor = torch::ones({100});
    rank == 0 ? ring_all_reduce(tensor, *group) : doubling_all_reduce(tensor, *group);
  });
  EXPECT_THAT(said[0], AllOf(HasSubstr("ring_reduce_scatter of 400 bytes: rank 0 of 2 waited in vain for rank 1; every "
                                       "rank must call the same collectives, in the same order"),
                             testing::Not(HasSubstr("\n"))));
  EXPECT_THAT(said[1], HasSubstr("doubling_all_reduce of 400 bytes: rank 1 of 2 waited in vain for rank 0"));
}

TEST(Collectives, AnotherSizeOnTheOtherRankIsNamed) {
  const auto said = said_by_two([](int rank, const Group& group) {
    const Tensor first = torch::ones({rank == 0 ? 100 : 10}), second = torch::ones({rank == 0 ? 10 : 100});
    tree_all_reduce(first, *group);
    tree_all_reduce(second, *group);
  });
  EXPECT_THAT(said[0], HasSubstr("tree_all_reduce of 400 bytes: rank 0 of 2 waited in vain for rank 1"));
  EXPECT_THAT(said[1], HasSubstr("tree_all_reduce of 40 bytes: rank 1 of 2 waited in vain for rank 0"));
}

/// Counts how often messages are collected, and refuses to send.
struct NoSends : c10d::Backend {
  NoSends() : Backend(0, 2) {}
  const std::string getBackendName() const override { return "no sends"; }
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override { ++open; }
  c10::intrusive_ptr<c10d::Work> endCoalescing() override {
    --open;
    return {};
  }
  c10::intrusive_ptr<c10d::Work> send(std::vector<Tensor>&, int, int) override {
    throw std::runtime_error("nothing is sent");
  }
  int open = 0;
};

TEST(CoalescedMessages, AnExceptionInBetweenClosesTheCall) {
  const auto backend = c10::make_intrusive<NoSends>();
  const auto group = c10::make_intrusive<c10d::ProcessGroup>(c10::make_intrusive<c10d::HashStore>(), 0, 2);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM, backend);
  const std::string message = tenfold::test::message_of<std::exception>([&] {
    tenfold::CoalescedMessages as_one(*group, c10::DeviceType::CPU);
    EXPECT_EQ(backend->open, 1);
    std::vector<Tensor> sent{torch::ones({1})};
    group->send(sent, 1, 0);
    as_one.end();
  });
  EXPECT_NE(message.find("nothing is sent"), std::string::npos) << message;
  EXPECT_EQ(backend->open, 0);
}

TEST(MessageCosts, AreWhatIsCountedOnEveryRank) {
  for (const int ranks : {2, 3, 6, 8}) {
    for (const Algorithm algorithm : kAlgorithms) {
      const auto counted = counted_messages(algorithm, ranks, 1003);
      for (int rank = 0; rank < ranks; ++rank) {
        const MessageCosts &here = counted[static_cast<size_t>(rank)],
                           formula = costs_of_rank(algorithm, rank, ranks, 1003);
        EXPECT_EQ(here, formula) << name_of(algorithm) << ", rank " << rank << " of " << ranks << ": "
                                 << here.sent_bytes << ", " << here.received_bytes << " in " << here.sent_messages
                                 << ", by formula " << formula.sent_bytes << ", " << formula.received_bytes << " in "
                                 << formula.sent_messages;
      }
    }
  }
}

TEST(MessageCosts, OfTheBusiestRank) {
  const auto sent = [](Algorithm algorithm, int ranks) {
    return busiest(algorithm, ranks, 2400).sent_bytes / 2400.0 / 4;
  };
  for (const int ranks : {2, 3, 4, 8})
    EXPECT_DOUBLE_EQ(sent(Algorithm::ring, ranks), 2.0 * (ranks - 1) / ranks) << ranks << " ranks, which divide 2400";
  EXPECT_EQ(sent(Algorithm::tree, 8), 3) << "three children of rank 0";
  EXPECT_EQ(sent(Algorithm::star, 8), 7);
  EXPECT_EQ(sent(Algorithm::doubling, 8), 3);
  EXPECT_EQ(sent(Algorithm::doubling, 6), 3) << "two rounds in pairs, and the result for one of the two that are over";
}

TEST(LinkModel, ATreeHasFewerStepsAndMoreBytes) {
  LinkModel link{.latency = 10e-6, .seconds_per_byte = 1e-9, .full_duplex = true};
  EXPECT_EQ(steps_of(Algorithm::ring, 8, 800).count, 14);
  EXPECT_EQ(steps_of(Algorithm::ring, 8, 800).bytes, 100);
  EXPECT_EQ(steps_of(Algorithm::tree, 8, 800).count, 6);
  EXPECT_EQ(steps_of(Algorithm::doubling, 8, 800).count, 3);
  EXPECT_EQ(steps_of(Algorithm::doubling, 6, 800).count, 4);
  for (const bool full_duplex : {true, false}) {
    link.full_duplex = full_duplex;
    EXPECT_EQ(ring_pays_from(2, link), 0) << "two steps each";
    const double alike = ring_pays_from(8, link);
    // 14 a + 14/8 S b = 6 a + 6 S b; where sending and receiving take turns, the ring's bytes count twice.
    EXPECT_NEAR(alike, 8 * 10e-6 / ((full_duplex ? 4.25 : 2.5) * 1e-9), 1e-6);
    EXPECT_NEAR(steps_of(Algorithm::ring, 8, alike).seconds(link), steps_of(Algorithm::tree, 8, alike).seconds(link),
                1e-12);
  }
}

TEST(FlatGradients, AreTheParametersOwn) {
  torch::nn::Sequential net(torch::nn::Linear(3, 5), torch::nn::Linear(5, 2));
  const Tensor input = torch::ones({4, 3});
  net->forward(input).sum().backward();
  std::vector<Tensor> expected;
  for (const Tensor& parameter : net->parameters()) expected.push_back(parameter.grad().clone());
  const Tensor flat = flat_gradients(net->parameters());
  for (int step = 0; step < 2; ++step) {
    flat.zero_();
    net->forward(input).sum().backward();
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(torch::equal(net->parameters()[i].grad(), expected[i]));
      EXPECT_TRUE(net->parameters()[i].grad().is_alias_of(flat)) << "backward() adds where they lie";
    }
  }
  EXPECT_EQ(flat.numel(), 3 * 5 + 5 + 5 * 2 + 2);
}

TEST(Prediction, OfFourRanks) {
  Counted baseline;
  baseline.ranks = 4;
  baseline.gradient_bytes = 4000;
  baseline.resting_bytes = 12000;
  baseline.peak_bytes = 13500;
  const Prediction ring = predict_exchange(Algorithm::ring, baseline),
                   star = predict_exchange(Algorithm::star, baseline);
  EXPECT_EQ(ring.sent_bytes, 6000);
  EXPECT_EQ(ring.peak_bytes, 13500) << "a quarter fits below what the backward pass needs";
  EXPECT_EQ(star.sent_bytes, 12000);
  EXPECT_EQ(star.peak_bytes, 16000);
  EXPECT_TRUE(std::isnan(*ring.speed_ratio)) << "nothing was probed";
  baseline.step_seconds = 1;
  baseline.ceilings = {{"cpu_all_reduce_seconds", 2e-3}, {"cpu_all_reduce_bytes_per_s", 1e6}};
  EXPECT_DOUBLE_EQ(*predict_exchange(Algorithm::ring, baseline).speed_ratio, 1);
  // Six steps of 1 ms and 1 ms for a quarter both ways, against six of 1 ms and 2 ms for the whole one way.
  EXPECT_NEAR(*predict_exchange(Algorithm::star, baseline).speed_ratio, 1 / (1 + 0.018 - 0.012), 1e-9);
  baseline.ranks = 1;
  EXPECT_FALSE(predict_exchange(Algorithm::ring, baseline).sent_bytes) << "nobody to send to";
}

}  // namespace
}  // namespace tenfold
