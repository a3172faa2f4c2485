// The instruments: memory, clock, global state, agreement, counting, split.
#include <gtest/gtest.h>

#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>

#include <thread>

#include <tenfold/agreement.h>
#include <tenfold/clock.h>
#include <tenfold/counted.h>
#include <tenfold/global_state.h>
#include <tenfold/lesson.h>
#include <tenfold/memory.h>
#include <tenfold/split.h>

namespace {

using torch::Tensor;
constexpr int64_t kMiB = 1 << 20;

TEST(Memory, CountsLiveAndPeakBytes) {
  tenfold::CountCpuMemory counting;
  const int64_t before = tenfold::live_bytes(torch::kCPU);
  Tensor kept = torch::empty({kMiB});  // 4 MiB
  tenfold::reset_peak(torch::kCPU);
  {
    Tensor passing = torch::empty({2 * kMiB});
  }
  EXPECT_NEAR(tenfold::live_bytes(torch::kCPU) - before, 4 * kMiB, 1 << 14);
  EXPECT_NEAR(tenfold::peak_bytes(torch::kCPU) - before, 12 * kMiB, 1 << 14);
  EXPECT_EQ(tenfold::peaks(torch::kCPU).at("allocated"), tenfold::peak_bytes(torch::kCPU));
}

TEST(Memory, ATensorMayOutliveTheCounting) {
  int64_t before = 0;
  Tensor late;
  {
    tenfold::CountCpuMemory counting;
    before = tenfold::live_bytes(torch::kCPU);
    late = torch::empty({kMiB});
  }
  EXPECT_GT(tenfold::live_bytes(torch::kCPU), before);
  late.reset();
  EXPECT_EQ(tenfold::live_bytes(torch::kCPU), before);
}

TEST(Memory, OutsideItNothingIsCounted) {
  const int64_t before = tenfold::live_bytes(torch::kCPU);
  const Tensor tensor = torch::empty({kMiB});
  EXPECT_EQ(tenfold::live_bytes(torch::kCPU), before);
}

TEST(Memory, TensorsFreedOnAnotherThreadAreCounted) {
  tenfold::CountCpuMemory counting;
  const int64_t before = tenfold::live_bytes(torch::kCPU);
  Tensor tensor = torch::empty({kMiB});
  std::thread([moved = std::move(tensor)]() mutable { moved.reset(); }).join();
  EXPECT_EQ(tenfold::live_bytes(torch::kCPU), before);
}

TEST(Clock, MeasuresAtLeastTheSleep) {
  EXPECT_GE(tenfold::time_block(torch::kCPU, [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }), 0.02);
}

TEST(GlobalState, RestoresRandomStateAndFlags) {
  torch::manual_seed(3);
  const auto state = tenfold::GlobalState::capture(torch::kCPU);
  const Tensor first = torch::rand({4});
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kHalf);
  at::globalContext().setDeterministicAlgorithms(true, true);
  at::globalContext().setAllowTF32CuBLAS(true);
  at::GradMode::set_enabled(false);
  EXPECT_FALSE(tenfold::GlobalState::capture(torch::kCPU).same_flags(state));
  state.restore();
  EXPECT_TRUE(tenfold::GlobalState::capture(torch::kCPU).same_flags(state));
  EXPECT_TRUE(torch::equal(torch::rand({4}), first));
}

struct Toy {
  torch::nn::Linear layer{8, 3};
  torch::optim::SGD optimizer{layer->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)};
};

// `fault`: 0 none, 1 the gradient is doubled, 2 one update is skipped, 3 NaN
tenfold::Step toy_step(int fault = 0) {
  torch::manual_seed(1);
  auto toy = std::make_shared<Toy>();
  auto inputs = torch::randn({16, 8}), targets = torch::randn({16, 3});
  auto count = std::make_shared<int>(0);
  return {16, toy->layer->named_parameters(), [=] {
            toy->optimizer.zero_grad();
            Tensor loss;
            {
              RECORD_USER_SCOPE("forward");
              loss = torch::mse_loss(toy->layer(inputs), targets);
            }
            (fault == 1 ? 2 * loss : fault == 3 ? loss * NAN : loss).backward();
            if (!(fault == 2 && (*count)++ == 1)) toy->optimizer.step();
            return loss;
          }};
}

TEST(Agreement, EqualRunsDeviateByNothing) {
  const auto deviation = tenfold::compare_traces(tenfold::trace_updates(toy_step(), 4), tenfold::trace_updates(toy_step(), 4));
  EXPECT_EQ(deviation.worst(), 0);
  EXPECT_TRUE(deviation.finite);
}

TEST(Agreement, FindsAWrongScale) {
  const auto deviation = tenfold::compare_traces(tenfold::trace_updates(toy_step(), 4), tenfold::trace_updates(toy_step(1), 4));
  EXPECT_NEAR(deviation.gradient, 1, 1e-5) << "a doubled gradient deviates by its own size";
  EXPECT_GT(deviation.update, 0.5);
}

TEST(Agreement, FindsASkippedUpdate) {
  const auto deviation = tenfold::compare_traces(tenfold::trace_updates(toy_step(), 4), tenfold::trace_updates(toy_step(2), 4));
  EXPECT_GT(deviation.update, 0.1);
}

TEST(Agreement, AnUndoneUpdateIsASkippedOne) {
  const auto undone = tenfold::trace_updates(toy_step(), 2, /*undone=*/1);
  const auto one = tenfold::trace_updates(toy_step(), 1);
  for (size_t i = 0; i < one.finish.size(); ++i) EXPECT_TRUE(torch::equal(undone.finish[i], one.finish[i]));
}

TEST(Agreement, NanNeverAgrees) {
  const auto deviation = tenfold::compare_traces(tenfold::trace_updates(toy_step(), 3), tenfold::trace_updates(toy_step(3), 3));
  EXPECT_FALSE(deviation.finite);
}

TEST(Agreement, OtherShapesAreRefused) {
  auto reference = tenfold::trace_updates(toy_step(), 2);
  auto other = reference;
  other.finish[0] = torch::zeros({2, 2}, torch::kDouble);
  EXPECT_THROW(tenfold::compare_traces(reference, other), std::invalid_argument);
  other.finish.pop_back();
  EXPECT_THROW(tenfold::compare_traces(reference, other), std::invalid_argument);
}

TEST(Agreement, RulesAreSaidInWords) {
  EXPECT_EQ(tenfold::Agreement::exact_on_cpu().rule(torch::kCPU), "bit for bit");
  EXPECT_EQ(tenfold::Agreement::within(1e-3, "why").rule(torch::kCPU), "within 1.0e-03: why");
  EXPECT_EQ(tenfold::Agreement::exact_on_cpu().tolerance_on(torch::kCUDA), 1e-4);
}

// A step whose bytes are known by hand: 3 regions, each keeping one tensor alive until the step's end.
tenfold::Step known_step() {
  auto kept = std::make_shared<std::vector<Tensor>>();
  return {1, tenfold::Parameters(), [kept] {
            kept->clear();
            for (int i = 0; i < 3; ++i) {
              RECORD_USER_SCOPE("keeps");
              {
                Tensor passing = torch::empty({kMiB});
              }  // 4 MiB, gone at the end of the region
              kept->push_back(torch::ones({kMiB / 4}));  // 1 MiB, stays
            }
            {
              RECORD_USER_SCOPE("outer");
              {
                RECORD_USER_SCOPE("product");
                kept->push_back(torch::mm(torch::ones({64, 32}), torch::ones({32, 16})));
              }
            }
            return torch::zeros({});
          }};
}

TEST(Counted, BytesOfRegions) {
  const auto counted = tenfold::count_step(torch::kCPU, known_step);
  const auto& keeps = counted.region("keeps");
  EXPECT_EQ(keeps.calls, 3);
  EXPECT_NEAR(keeps.retained_bytes, 3 * kMiB, 1 << 14);
  EXPECT_NEAR(keeps.largest_retained_bytes, kMiB, 1 << 13);
  EXPECT_NEAR(keeps.largest_peak_bytes, 4 * kMiB, 1 << 13);
  EXPECT_NEAR(counted.peak_bytes, 6 * kMiB, 1 << 15) << "two kept tensors and the passing one";
  EXPECT_NEAR(counted.resting_bytes, 3 * kMiB, 1 << 15);
  EXPECT_THROW(counted.region("nowhere"), std::invalid_argument);
}

TEST(Counted, OperationsOfRegions) {
  const auto counted = tenfold::count_step(torch::kCPU, known_step);
  EXPECT_EQ(counted.region("product").flops, 2.0 * 64 * 32 * 16);
  EXPECT_EQ(counted.region("outer").flops, counted.region("product").flops) << "an outer region contains its inner ones";
  EXPECT_GE(counted.region("product").operator_bytes, 4.0 * (64 * 32 + 32 * 16 + 64 * 16));
}

TEST(Counted, SharesAreOfTheStep) {
  const auto counted = tenfold::count_step(torch::kCPU, [] { return toy_step(); });
  EXPECT_GT(counted.share("forward"), 0.02);
  EXPECT_LT(counted.share("forward"), 0.98);
  EXPECT_EQ(counted.parameter_bytes, (8 * 3 + 3) * 4);
}

TEST(Split, PartsAddUpToTheStep) {
  const tenfold::Step step{1, tenfold::Parameters(), [] {
                             {
                               RECORD_USER_SCOPE("data");
                               std::this_thread::sleep_for(std::chrono::milliseconds(4));
                             }
                             {
                               RECORD_USER_SCOPE("communication");
                               std::this_thread::sleep_for(std::chrono::milliseconds(2));
                             }
                             std::this_thread::sleep_for(std::chrono::milliseconds(3));
                             Tensor a = torch::ones({200, 200});
                             for (int i = 0; i < 20; ++i) a = torch::mm(a, a) * 1e-3;
                             return a.sum();
                           }};
  const auto split = tenfold::split_step(torch::kCPU, step, 3);
  EXPECT_GE(split.data, 0.004);
  EXPECT_GE(split.communication, 0.002);
  EXPECT_GE(split.host, 0.003) << "sleeping outside any region is the lesson's own code";
  EXPECT_GT(split.device, 0);
  EXPECT_EQ(split.copy, 0);
}

TEST(Split, TraceIsWritten) {
  const std::string path = testing::TempDir() + "tenfold_trace.json";
  tenfold::write_trace(torch::kCPU, toy_step(), 2, path);
  EXPECT_GT(std::filesystem::file_size(path), 1000U);
  std::filesystem::remove(path);
}

}  // namespace
