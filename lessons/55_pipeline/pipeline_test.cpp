#include "pipeline.h"

#include <gtest/gtest.h>

#include "common/ranks/rank_threads.h"
#include "published_orders.h"
#include "settings.h"
#include "sleeping_stages.h"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/support.h"

namespace {

using tenfold::PipelineAction, tenfold::PipelinePass, tenfold::Pipeline, tenfold::PipelineSchedule;
using torch::Tensor;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
using Tensors = std::vector<Tensor>;

double idle_share(const PipelineSchedule& schedule, double forward = 1, double backward = 2) {
  return tenfold::timeline_of(schedule, tenfold::equal_stages(schedule, forward, backward)).idle_share();
}

TEST(PipelineSchedule, EveryGeneratedOneCanTrainAndHoldsWhatItsFormulaSays) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (int micro_batches = 1; micro_batches <= 8; ++micro_batches) {
      const auto naive = tenfold::check_schedule(tenfold::naive_schedule(ranks, micro_batches));
      const auto gpipe = tenfold::check_schedule(tenfold::gpipe_schedule(ranks, micro_batches));
      const auto one_f_one_b = tenfold::check_schedule(tenfold::one_f_one_b_schedule(ranks, micro_batches));
      EXPECT_EQ(naive.fault + gpipe.fault + one_f_one_b.fault, "") << ranks << " ranks, " << micro_batches;
      EXPECT_EQ(naive.held, std::vector<int>(static_cast<size_t>(ranks), 1));
      EXPECT_EQ(gpipe.held, std::vector<int>(static_cast<size_t>(ranks), micro_batches));
      for (int rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(one_f_one_b.held[static_cast<size_t>(rank)], std::min(micro_batches, ranks - rank));
      EXPECT_TRUE(naive.in_order && gpipe.in_order && one_f_one_b.in_order);
      EXPECT_TRUE(naive.exchanges_may_wait && gpipe.exchanges_may_wait && one_f_one_b.exchanges_may_wait);
      EXPECT_TRUE(gpipe.pairs_may_wait && one_f_one_b.pairs_may_wait);
    }
    for (int chunks = 1; chunks <= 3; ++chunks) {
      for (int groups = 1; groups <= 3; ++groups) {
        const auto check = tenfold::check_schedule(tenfold::interleaved_schedule(ranks, groups * ranks, chunks));
        EXPECT_EQ(check.fault, "") << ranks << " ranks, " << chunks << " chunks";
        EXPECT_TRUE(check.in_order && check.pairs_may_wait) << "hangs over NCCL: " << ranks << " ranks, " << chunks;
        for (int rank = 0; rank < ranks; ++rank) {
          const int warm_up = 2 * (ranks - 1 - rank) + (chunks - 1) * ranks;
          EXPECT_EQ(check.held[static_cast<size_t>(rank)], std::min(groups * ranks * chunks, warm_up + 1));
        }
      }
    }
  }
  EXPECT_THROW(tenfold::interleaved_schedule(4, 6, 2), std::invalid_argument);
}

TEST(PipelineSchedule, TheBubbleOfEqualStagesIsTheClosedForm) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (int micro_batches = 1; micro_batches <= 12; ++micro_batches) {
      const double formula = tenfold::idle_share_of(ranks, micro_batches);
      EXPECT_NEAR(idle_share(tenfold::gpipe_schedule(ranks, micro_batches)), formula, 1e-12);
      EXPECT_NEAR(idle_share(tenfold::one_f_one_b_schedule(ranks, micro_batches)), formula, 1e-12);
      EXPECT_NEAR(idle_share(tenfold::naive_schedule(ranks, micro_batches)), (ranks - 1.0) / ranks, 1e-12);
      if (micro_batches % ranks != 0) continue;
      for (int chunks = 1; chunks <= 3; ++chunks)
        EXPECT_NEAR(idle_share(tenfold::interleaved_schedule(ranks, micro_batches, chunks)),
                    tenfold::idle_share_of(ranks, micro_batches, chunks), 1e-12);
    }
  }
  // With F = B, too, 1F1B is as long as GPipe: it saves memory, not time.
  EXPECT_NEAR(idle_share(tenfold::one_f_one_b_schedule(8, 32), 1, 1), idle_share(tenfold::gpipe_schedule(8, 32), 1, 1),
              1e-12);
}

TEST(PipelineSchedule, MessagesMakeThePipelineLonger) {
  const auto schedule = tenfold::gpipe_schedule(3, 4);
  const double without = tenfold::timeline_of(schedule, tenfold::equal_stages(schedule, 3, 6)).length;
  const double with = tenfold::timeline_of(schedule, tenfold::equal_stages(schedule, 3, 6, 0.5)).length;
  EXPECT_NEAR(with - without, 4 * 0.5, 1e-12) << "two messages forward and two backward are not hidden";
  EXPECT_EQ(tenfold::messages_of(schedule, 0), 4);
  EXPECT_EQ(tenfold::messages_of(schedule, 1), 8);
  const auto interleaved = tenfold::interleaved_schedule(2, 4, 2);
  EXPECT_EQ(tenfold::messages_of(interleaved, 0) + tenfold::messages_of(interleaved, 1), 2 * 4 * 3);
}

std::string fault_of(const std::function<void(PipelineSchedule&)>& change) {
  auto schedule = tenfold::one_f_one_b_schedule(3, 4);
  change(schedule);
  const std::string fault = tenfold::check_schedule(schedule).fault;
  if (!fault.empty()) {
    EXPECT_THROW(tenfold::timeline_of(schedule, tenfold::equal_stages(schedule, 1, 2)), std::invalid_argument);
  }
  return fault;
}

TEST(PipelineSchedule, FaultsAreNamed) {
  const auto expect = [](const std::string& words, const std::function<void(PipelineSchedule&)>& change) {
    EXPECT_NE(fault_of(change).find(words), std::string::npos) << words << ": " << fault_of(change);
  };
  EXPECT_EQ(fault_of([](PipelineSchedule&) {}), "");
  expect("backward of micro-batch 3, chunk 0, on rank 1, is there 0 times",
         [](PipelineSchedule& s) { s.of_rank[1].pop_back(); });
  expect("forward of micro-batch 0, chunk 0, on rank 2, is there 2 times",
         [](PipelineSchedule& s) { s.of_rank[2].push_back({PipelinePass::forward, 0}); });
  expect("do not exist", [](PipelineSchedule& s) { s.of_rank[0].push_back({PipelinePass::forward, 4}); });
  expect("one order for each rank", [](PipelineSchedule& s) { s.of_rank.pop_back(); });
  expect("backward of micro-batch 0, chunk 0, on rank 2, comes before its forward",
         [](PipelineSchedule& s) { std::swap(s.of_rank[2][0], s.of_rank[2][1]); });
  expect("weights' gradients of micro-batch 3, chunk 0, on rank 2, is there 0 times", [](PipelineSchedule& s) {
    s = tenfold::zb_h1_schedule(3, 4);
    s.of_rank[2].pop_back();
  });
  expect("weights' gradients of micro-batch 0, chunk 0, on rank 0, comes before its backward", [](PipelineSchedule& s) {
    s = tenfold::zb_h1_schedule(3, 4);
    std::swap(s.of_rank[0][3], s.of_rank[0][4]);
  });
  expect("do not exist", [](PipelineSchedule& s) { s.of_rank[1].push_back({PipelinePass::weight_gradients, 0}); });
  // Rank 0 wants the first gradient before it has sent the micro-batch that rank 1 takes first.
  expect("waits for ever", [](PipelineSchedule& s) {
    s.of_rank[0] = tenfold::naive_schedule(3, 4).of_rank[0];
    s.of_rank[1] = tenfold::gpipe_schedule(3, 4).of_rank[1];
  });
}

TEST(PipelineSchedule, OneFOneBHangsIfEachSendIsWaitedFor) {
  EXPECT_TRUE(tenfold::check_schedule(tenfold::naive_schedule(3, 4)).sends_may_wait);
  EXPECT_TRUE(tenfold::check_schedule(tenfold::gpipe_schedule(3, 4)).sends_may_wait);
  EXPECT_FALSE(tenfold::check_schedule(tenfold::one_f_one_b_schedule(3, 4)).sends_may_wait);
  EXPECT_TRUE(tenfold::check_schedule(tenfold::one_f_one_b_schedule(3, 1)).sends_may_wait);
  // What mends 1F1B is not enough for interleaved: a rank waits for a receive that the other posts one exchange later.
  // Receives one forward and one backward ahead are.
  EXPECT_TRUE(tenfold::check_schedule(tenfold::one_f_one_b_schedule(3, 4)).exchanges_may_wait);
  EXPECT_FALSE(tenfold::check_schedule(tenfold::interleaved_schedule(2, 4, 2)).exchanges_may_wait);
  EXPECT_TRUE(tenfold::check_schedule(tenfold::interleaved_schedule(2, 4, 2)).pairs_may_wait);
}

TEST(PipelineSchedule, AForwardAndTheBackwardAfterItExchangeTogether) {
  const auto sizes = [](const PipelineSchedule& schedule, int rank, tenfold::PipelineExchange exchange) {
    std::vector<size_t> of;
    for (const auto& together : tenfold::actions_between_exchanges(schedule, rank, exchange))
      of.push_back(together.size());
    return of;
  };
  using enum tenfold::PipelineExchange;
  const auto schedule = tenfold::interleaved_schedule(2, 4, 2);  // 8 passes each way; rank 1 warms up with 2
  EXPECT_EQ(sizes(schedule, 1, in_pairs), (std::vector<size_t>{1, 1, 2, 2, 2, 2, 2, 2, 1, 1}));
  EXPECT_EQ(sizes(schedule, 1, with_next), std::vector<size_t>(16, 1));
  // The gradient is sent before the weights' are computed.
  EXPECT_EQ(sizes(tenfold::zb_h1_schedule(2, 3), 1, with_next), (std::vector<size_t>{1, 1, 1, 2, 1, 3}));
  // Rank 0 of two micro-batches has all forwards first: there are no pairs.
  EXPECT_EQ(sizes(tenfold::interleaved_schedule(2, 2, 2), 0, in_pairs), std::vector<size_t>(8, 1));
}

TEST(Pipeline, GlooWaitsForTheReceiver) {
  // Why send() in pipeline.h does not wait: both ranks would wait here for ever, each in its send to the other.
  const std::string message = tenfold::test::message_of<std::exception>([] {
    tenfold::on_rank_threads(2, std::chrono::milliseconds(500), [](int rank, const Group& group) {
      Tensors own{torch::ones({4})}, other{torch::zeros({4})};
      group->send(own, 1 - rank, 0)->wait();
      group->recv(other, 1 - rank, 0)->wait();
    });
  });
  EXPECT_NE(message, "");
}

/// A stage of the toy model: h -> tanh(h W). Different weights in each.
Tensor weight_of(int stage) {
  auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(stage) + 1);
  return torch::randn({6, 6}, generator).mul_(0.5).requires_grad_();
}

constexpr int kRows = 3;
Tensor data_of(int micro_batch, uint64_t what) {
  auto generator = at::detail::createCPUGenerator(100 + what + static_cast<uint64_t>(micro_batch));
  return torch::randn({kRows, 6}, generator);
}

using Store = c10::intrusive_ptr<tenfold::WeightGradStore>;

Tensor stage_result(const Tensor& weight, const Tensor& input, int stage, int stages, int micro_batch,
                    const Store& store = nullptr) {
  const Tensor x = stage == 0 ? data_of(micro_batch, 0) : input;
  const Tensor h = torch::tanh(store ? tenfold::deferred_linear(x, weight, {}, store) : torch::linear(x, weight));
  return stage + 1 == stages ? torch::mse_loss(h, data_of(micro_batch, 50)) : h;
}

struct Trained {
  double loss = 0;
  Tensors gradients;  ///< of each stage
};

Trained alone(int stages, int micro_batches) {
  Tensors weights;
  for (int stage = 0; stage < stages; ++stage) weights.push_back(weight_of(stage));
  Trained result;
  for (int i = 0; i < micro_batches; ++i) {
    Tensor h;
    for (int stage = 0; stage < stages; ++stage)
      h = stage_result(weights[static_cast<size_t>(stage)], h, stage, stages, i);
    (h / micro_batches).backward();
    result.loss += h.item<double>() / micro_batches;
  }
  for (const Tensor& weight : weights) result.gradients.push_back(weight.grad());
  return result;
}

Trained together(const PipelineSchedule& schedule, int runs = 1) {
  Trained result{0, Tensors(static_cast<size_t>(schedule.stages()))};
  const auto on_rank = [&](int rank, const Group& group) {
    std::vector<Pipeline::Stage> stages;
    Tensors weights;
    const Store store = schedule.split ? c10::make_intrusive<tenfold::WeightGradStore>() : nullptr;
    for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
      const int stage = schedule.stage_of(rank, chunk);
      weights.push_back(weight_of(stage));
      stages.push_back([&schedule, stage, store, weight = weights.back()](const Tensor& input, int micro_batch) {
        return stage_result(weight, input, stage, schedule.stages(), micro_batch, store);
      });
    }
    Pipeline pipeline(schedule, group, stages, {kRows, 6}, torch::kFloat, store);
    for (int i = 0; i < runs; ++i) {
      for (Tensor& weight : weights) weight.mutable_grad() = Tensor();
      const Tensor loss = pipeline.run();
      EXPECT_EQ(loss.defined(), rank + 1 == schedule.ranks);
      if (loss.defined()) result.loss = loss.item<double>();
    }
    for (int chunk = 0; chunk < schedule.chunks; ++chunk)
      result.gradients[static_cast<size_t>(schedule.stage_of(rank, chunk))] =
          weights[static_cast<size_t>(chunk)].grad();
  };
  if (schedule.ranks == 1)
    on_rank(0, {});
  else
    tenfold::on_rank_threads(schedule.ranks, std::chrono::seconds(20), on_rank);
  return result;
}

void expect_equals_one_process(const PipelineSchedule& schedule, int runs = 1) {
  const Trained one = alone(schedule.stages(), schedule.micro_batches), many = together(schedule, runs);
  EXPECT_NEAR(many.loss, one.loss, 1e-5 * one.loss);
  for (size_t i = 0; i < one.gradients.size(); ++i) {
    // The same sums, but once in a while a matmul next to other threads rounds otherwise, by some 1e-7. A micro-batch
    // too few, or a division, moves them by 1e-2 and more.
    EXPECT_TRUE(torch::allclose(many.gradients[i], one.gradients[i], 1e-5, 1e-6)) << "stage " << i;
  }
}

TEST(Pipeline, EqualsOneProcess) {
  expect_equals_one_process(tenfold::naive_schedule(2, 3));
  expect_equals_one_process(tenfold::gpipe_schedule(3, 4));
  expect_equals_one_process(tenfold::one_f_one_b_schedule(2, 1));
  expect_equals_one_process(tenfold::one_f_one_b_schedule(4, 6));
  expect_equals_one_process(tenfold::interleaved_schedule(2, 4, 2));
  expect_equals_one_process(tenfold::interleaved_schedule(3, 3, 2));
  expect_equals_one_process(tenfold::interleaved_schedule(1, 3, 2));  // no group
  expect_equals_one_process(tenfold::one_f_one_b_schedule(3, 5), /*runs=*/3);
  for (const auto& [ranks, micro_batches] : {std::pair{1, 3}, {2, 1}, {2, 4}, {3, 2}, {4, 6}})
    expect_equals_one_process(tenfold::zb_h1_schedule(ranks, micro_batches), /*runs=*/2);
}

TEST(Pipeline, WhatCannotRunIsRefused) {
  const auto stage = [](const Tensor& input, int) { return input; };
  auto broken = tenfold::gpipe_schedule(1, 2);
  broken.of_rank[0].pop_back();
  const auto message_of = [&](const PipelineSchedule& schedule, const std::vector<Pipeline::Stage>& stages) {
    return tenfold::test::message_of<c10::ValueError>([&] { Pipeline(schedule, {}, stages, {1}, torch::kFloat); });
  };
  EXPECT_NE(message_of(broken, {stage}).find("this schedule cannot train: backward of micro-batch 1"),
            std::string::npos);
  EXPECT_NE(message_of(tenfold::gpipe_schedule(2, 2), {stage}).find("a schedule of 2 ranks on a group of 1"),
            std::string::npos);
  EXPECT_NE(message_of(tenfold::gpipe_schedule(1, 2), {stage, stage}).find("1 chunks, and 2 stages"),
            std::string::npos);
  EXPECT_NE(message_of(tenfold::zb_h1_schedule(1, 2), {stage}).find("needs a store"), std::string::npos);
}

// The receiver would read half a buffer, or wait for the other half.
TEST(Pipeline, AResultOfAnotherTypeThanTheBoundarysIsRefused) {
  const std::vector<Pipeline::Stage> stages = {
      [](const Tensor&, int) { return torch::ones({1}, torch::kBFloat16).requires_grad_(); },
      [](const Tensor& input, int) { return input.sum(); }};
  Pipeline pipeline(tenfold::interleaved_schedule(1, 1, 2), {}, stages, {1}, torch::kFloat);
  const std::string message = tenfold::test::message_of<c10::Error>([&] { pipeline.run(); });
  EXPECT_NE(message.find("a stage's result is c10::BFloat16 on cpu, the boundary float on cpu"), std::string::npos)
      << message;
}

TEST(Pipeline, ATiedWeightsGradientIsTheSumOnBothRanks) {
  Tensors gradients(3);
  tenfold::on_rank_threads(3, std::chrono::seconds(20), [&](int rank, const Group& group) {
    Tensor& gradient = gradients[static_cast<size_t>(rank)];
    gradient = torch::full({2, 3}, rank + 1.1);
    if (rank != 1) tenfold::add_gradient_of(2 - rank, gradient, *group);
  });
  EXPECT_TRUE(torch::equal(gradients[0], gradients[2]));
  EXPECT_TRUE(torch::allclose(gradients[0], torch::full({2, 3}, 1.1 + 3.1)));
  EXPECT_TRUE(torch::equal(gradients[1], torch::full({2, 3}, 2.1)));
}

TEST(Pipeline, BlocksAreDealtOutOnceAndTheHeadsRankHasNoneMore) {
  for (int64_t layers = 1; layers <= 9; ++layers) {
    for (int stages = 1; stages <= layers; ++stages) {
      int64_t next = 0;
      for (int stage = 0; stage < stages; ++stage) {
        const auto blocks = tenfold::blocks_of(layers, stage, stages);
        EXPECT_EQ(blocks.begin, next);
        EXPECT_LE(blocks.end - blocks.begin, (layers + stages - 1) / stages);
        next = blocks.end;
      }
      EXPECT_EQ(next, layers);
      EXPECT_EQ(
          tenfold::blocks_of(layers, stages - 1, stages).end - tenfold::blocks_of(layers, stages - 1, stages).begin,
          layers / stages);
    }
  }
}

TEST(SleepingStages, TakeAtLeastTheTimelinesLength) {
  const auto schedule = tenfold::one_f_one_b_schedule(3, 4);
  const double least = tenfold::timeline_of(schedule, tenfold::equal_stages(schedule, 6, 12)).length;
  // A sleep is never shorter than asked for; how much longer it is depends on the machine.
  EXPECT_GE(tenfold::slept_seconds(schedule, {6, 12}, /*runs=*/1), 1e-3 * least);
}

TEST(PublishedOrders, InterleavingGainsLessWithMoreMicroBatches) {
  EXPECT_NEAR(tenfold::interleaving_gain(8, 8), (15.0 / 8) / (23.0 / 16), 1e-12);
  EXPECT_GT(tenfold::interleaving_gain(8, 8), tenfold::interleaving_gain(8, 64));
  EXPECT_GT(tenfold::interleaving_gain(8, 64), 1);
  // 1.30 at 8 micro-batches and 1.18 at 16: torchtitan's 1.28 is nearer to the first, 1.20 of 8 H800 to the second.
  EXPECT_EQ(tenfold::nearest_micro_batches(tenfold::kTorchtitan), 8);
  EXPECT_EQ(tenfold::nearest_micro_batches(tenfold::kZeroBubble), 16);
}

}  // namespace
