// The instruments: memory, clock, global state, agreement, counting, split.
#include <gtest/gtest.h>

#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "common/base/seconds_since.h"
#include "common/harness/lesson.h"
#include "common/measure/agreement.h"
#include "common/measure/changed_step.h"
#include "common/measure/clock.h"
#include "common/measure/counted.h"
#include "common/measure/global_state.h"
#include "common/measure/memory.h"
#include "common/measure/split.h"

#include "tests/support/support.h"

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

using SteadyClock = std::chrono::steady_clock;

// Whatever the machine does meanwhile: what is measured lies between a reading inside and a reading outside.
TEST(Clock, MeasuresSecondsOfTheWork) {
  double inside = 0;
  const auto before = SteadyClock::now();
  const double measured = tenfold::time_block(torch::kCPU, [&] {
    const auto begin = SteadyClock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    inside = tenfold::seconds_since(begin);
  });
  const double outside = tenfold::seconds_since(before);
  EXPECT_GE(measured, inside);
  EXPECT_LE(measured, outside);
  EXPECT_GE(inside, 0.02);
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
  const auto deviation =
      tenfold::compare_traces(tenfold::trace_updates(toy_step(), 4), tenfold::trace_updates(toy_step(), 4));
  EXPECT_EQ(deviation.worst(), 0);
  EXPECT_TRUE(deviation.finite);
}

TEST(Agreement, FindsAWrongScale) {
  const auto deviation =
      tenfold::compare_traces(tenfold::trace_updates(toy_step(), 4), tenfold::trace_updates(toy_step(1), 4));
  EXPECT_NEAR(deviation.gradient, 1, 1e-5) << "a doubled gradient deviates by its own size";
  EXPECT_GT(deviation.update, 0.5);
}

TEST(Agreement, FindsASkippedUpdate) {
  const auto deviation =
      tenfold::compare_traces(tenfold::trace_updates(toy_step(), 4), tenfold::trace_updates(toy_step(2), 4));
  EXPECT_GT(deviation.update, 0.1);
}

TEST(Agreement, AnUndoneUpdateIsASkippedOne) {
  const auto undone = tenfold::trace_updates(toy_step(), 2, /*undone=*/1);
  const auto one = tenfold::trace_updates(toy_step(), 1);
  for (size_t i = 0; i < one.finish.size(); ++i) EXPECT_TRUE(torch::equal(undone.finish[i], one.finish[i]));
}

TEST(Agreement, NanNeverAgrees) {
  const auto deviation =
      tenfold::compare_traces(tenfold::trace_updates(toy_step(), 3), tenfold::trace_updates(toy_step(3), 3));
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

// The toy as if its parameters lay in parts elsewhere; `change` may spoil what it gathers.
tenfold::Step gathering_toy(const std::function<void(tenfold::Gathered&)>& change = [](tenfold::Gathered&) {}) {
  tenfold::Step step = toy_step();
  const auto parameters = step.parameters;
  step.parameters = tenfold::Parameters();
  step.gather = [parameters, change] {
    tenfold::Gathered whole;
    for (size_t i = parameters.size(); i-- > 0;) {  // names decide, not their order
      whole.parameters.insert(parameters[i].key(), parameters[i].value().detach().clone());
      whole.gradients.insert(parameters[i].key(), parameters[i].value().grad());
    }
    change(whole);
    return whole;
  };
  return step;
}

TEST(Agreement, WhatIsGatheredIsComparedByName) {
  const auto reference = tenfold::trace_updates(toy_step(), 3), whole = tenfold::trace_updates(gathering_toy(), 3);
  EXPECT_EQ(tenfold::compare_traces(reference, whole).worst(), 0);
  const auto lost = tenfold::trace_updates(
      gathering_toy([](tenfold::Gathered& all) { all.parameters["bias"].slice(0, 2).zero_(); }), 3);
  const auto deviation = tenfold::compare_traces(reference, lost);
  EXPECT_GT(deviation.update, 0.1);
  EXPECT_EQ(deviation.worst_name(reference.names), "update, most in bias,");
  const auto no_gradient =
      tenfold::trace_updates(gathering_toy([](tenfold::Gathered& all) { all.gradients.clear(); }), 3);
  EXPECT_EQ(tenfold::compare_traces(reference, no_gradient).gradient, 1);
}

TEST(Agreement, OtherNamesAndShapesAreSaidInASentence) {
  const auto reference = tenfold::trace_updates(toy_step(), 1);
  const auto why = [&](const std::function<void(tenfold::Gathered&)>& change) {
    return tenfold::test::message_of<std::invalid_argument>(
        [&] { tenfold::compare_traces(reference, tenfold::trace_updates(gathering_toy(change), 1)); });
  };
  EXPECT_EQ(why([](auto& all) {
              all.parameters["weight"] = torch::zeros({8, 1});
              all.gradients.clear();
            }),
            "parameter weight was gathered as [8, 1], the baseline's is [3, 8]: they cannot be compared");
  EXPECT_EQ(why([](auto& all) { all.parameters.insert("more", torch::zeros({1})); }),
            "'more' was gathered, and the baseline has no such parameter");
  EXPECT_EQ(why([](auto& all) { all.parameters.erase("weight"); }),
            "the gathered parameters lack 'weight' of the baseline's; they are bias");
  EXPECT_EQ(why([](auto& all) {
              if (all.gradients["bias"].defined()) all.gradients["bias"] = torch::zeros({2});
            }),
            "the gradient of bias has the shape [2], the parameter [3]");
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

// As c10d does it: the region of a collective begins where it is asked for and ends on a thread of the transport.
TEST(Counted, ACollectivesOwnRegionIsNotOneOfTheStep) {
  std::vector<torch::Tensor> kept;
  const auto counted = tenfold::count_step(torch::kCPU, [&] {
    return tenfold::Step{1, tenfold::Parameters(), [&] {
                           auto collective = std::make_shared<at::RecordFunction>(at::RecordScope::USER_SCOPE);
                           if (collective->isActive()) {
                             collective->_setAsync();
                             collective->before("all_reduce");
                           }
                           {
                             RECORD_USER_SCOPE("keeps");
                             std::thread([&] { collective->end(); }).join();
                             kept.assign(1, torch::ones({1 << 18}));  // 1 MiB
                           }
                           kept.clear();
                           return torch::zeros({});
                         }};
  });
  EXPECT_FALSE(counted.regions.contains("all_reduce"));
  EXPECT_EQ(counted.region("keeps").calls, 1);
  EXPECT_NEAR(counted.region("keeps").retained_bytes, kMiB, 1 << 13);
}

TEST(Counted, OperationsOfRegions) {
  const auto counted = tenfold::count_step(torch::kCPU, known_step);
  EXPECT_EQ(counted.region("product").flops, 2.0 * 64 * 32 * 16);
  EXPECT_EQ(counted.region("outer").flops, counted.region("product").flops)
      << "an outer region contains its inner ones";
  EXPECT_GE(counted.region("product").operator_bytes, 4.0 * (64 * 32 + 32 * 16 + 64 * 16));
}

TEST(Counted, ProductsInsideOperatorsCountOnce) {
  torch::nn::Linear layer(32, 16);
  const auto counted = tenfold::count_step(torch::kCPU, [&] {
    return tenfold::Step{1, layer->named_parameters(), [&] {
                           const torch::Tensor in = torch::ones({4, 16, 32}), two = torch::ones({2, 8, 16});
                           {
                             RECORD_USER_SCOPE("linear");
                             layer->forward(in);
                           }
                           RECORD_USER_SCOPE("matmul");
                           torch::matmul(two, two.transpose(1, 2));
                           return torch::zeros({});
                         }};
  });
  EXPECT_EQ(counted.region("linear").flops, 2.0 * 64 * 32 * 16)
      << "by the addmm() inside: linear() of three dimensions has no formula";
  EXPECT_EQ(counted.region("matmul").flops, 2.0 * 2 * 8 * 16 * 8) << "by the bmm() inside";
}

// "all" encloses the whole step, "long" and "short" sleep 4 ms and 1 ms within it. A loaded machine may stretch each of
// them, so only what holds then, too, is asserted.
TEST(Counted, SharesAreOfTheStep) {
  std::vector<SteadyClock::time_point> ends;  // of the steps
  const auto build = [&ends] {
    return tenfold::Step{1, tenfold::Parameters(), [&ends] {
                           {
                             RECORD_USER_SCOPE("all");
                             {
                               RECORD_USER_SCOPE("long");
                               std::this_thread::sleep_for(std::chrono::milliseconds(4));
                             }
                             {
                               RECORD_USER_SCOPE("short");
                               std::this_thread::sleep_for(std::chrono::milliseconds(1));
                             }
                           }
                           ends.push_back(SteadyClock::now());
                           return torch::zeros({});
                         }};
  };
  const auto counted = tenfold::count_step(torch::kCPU, build);
  ends.push_back(SteadyClock::now());
  double longest = 0;  // from one step's end to the next one's
  for (size_t i = 1; i < ends.size(); ++i)
    longest = std::max(longest, std::chrono::duration<double>(ends[i] - ends[i - 1]).count());
  EXPECT_LE(counted.step_seconds, longest) << "a mean of steps is no longer than the longest of them";
  EXPECT_GE(counted.region("long").seconds, 0.004);
  EXPECT_GE(counted.region("short").seconds, 0.001);
  EXPECT_DOUBLE_EQ(counted.share("long"), counted.region("long").seconds / counted.whole.seconds);
  EXPECT_LE(counted.share("long") + counted.share("short"), counted.share("all"));
  EXPECT_LE(counted.share("all"), 1);
  EXPECT_GE(counted.whole.host_seconds, counted.region("all").host_seconds);
  EXPECT_LE(counted.whole.host_seconds, counted.whole.seconds);
}

TEST(Counted, ACeilingThatWasNotProbedIsNoNumberAndIsRemembered) {
  tenfold::Counted counted;
  counted.ceilings = {{"cpu_op_seconds", 1e-6}};
  EXPECT_EQ(counted.ceiling("cpu_op_seconds"), 1e-6);
  EXPECT_FALSE(counted.lacked_ceiling);
  EXPECT_TRUE(std::isnan(counted.ceiling("cpu_copy_bytes_per_s")));
  EXPECT_TRUE(counted.lacked_ceiling);
  counted.lacked_ceiling = counted.timed = false;
  EXPECT_TRUE(std::isnan(counted.ceiling("cpu_op_seconds"))) << "a dry GPU has no clock";
  EXPECT_TRUE(counted.lacked_ceiling);
}

TEST(ChangedStep, PeakIsTheHigherOfLossAndUpdate) {
  tenfold::Counted counted;
  counted.resting_bytes = 100, counted.gradient_bytes = 20;
  counted.regions["loss"].largest_peak_bytes = 50;
  EXPECT_EQ(tenfold::peak_with_update(counted, /*saved=*/10, /*working=*/0), 80 - 10 + 50);
  EXPECT_EQ(tenfold::peak_with_update(counted, /*saved=*/10, /*working=*/70), 100 - 10 + 70);
}

TEST(ChangedStep, AGpuLaunchesWhileItMoves) {
  tenfold::Counted counted{.step_seconds = 1};
  counted.ceilings = {{"cpu_op_seconds", 0.25},
                      {"cpu_copy_bytes_per_s", 10},
                      {"cuda_launch_seconds", 0.25},
                      {"cuda_copy_bytes_per_s", 10}};
  const tenfold::AddedWork added{.operators = 2, .bytes = 20};
  EXPECT_EQ(tenfold::seconds_of(added, counted), 2.5);
  EXPECT_EQ(tenfold::speed_with(counted, 1), 0.5);
  counted.device = torch::kCUDA;
  EXPECT_EQ(tenfold::seconds_of(added, counted), 2);
}

TEST(Counted, BytesOfParameters) {
  EXPECT_EQ(tenfold::count_step(torch::kCPU, [] { return toy_step(); }).parameter_bytes, (8 * 3 + 3) * 4);
}

// What a part of a step takes, from within and from outside it: whatever the machine does meanwhile, the truth is
// between the two.
struct Bounds {
  double least = 0, most = 0;

  template <class Work>
  void around(Work&& work) {
    const auto before = SteadyClock::now();
    const double within = work();
    most += tenfold::seconds_since(before);
    least += within;
  }
};

double sleep_ms(int ms) {
  const auto begin = SteadyClock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  return tenfold::seconds_since(begin);
}

TEST(Split, PartsAddUpToTheStep) {
  Bounds data, communication, device, host, whole;
  const Tensor a = torch::rand({300, 300});
  const auto products = [&a] {
    for (int i = 0; i < 5; ++i) torch::mm(a, a);
  };
  const auto body = [&] {
    const auto begin = SteadyClock::now();
    data.around([&] {
      RECORD_USER_SCOPE("data");
      const auto inside = SteadyClock::now();
      products();  // the region's, and not the device's once more
      {
        RECORD_USER_SCOPE("copy");
        sleep_ms(3);
      }
      return tenfold::seconds_since(inside);
    });
    communication.around([] {
      RECORD_USER_SCOPE("communication");
      return sleep_ms(2);
    });
    host.around([] { return sleep_ms(1); });
    device.around([&] {
      products();
      return 0.0;
    });
    return tenfold::seconds_since(begin);
  };
  constexpr int kSteps = 3;
  tenfold::Split split;
  whole.around([&] {
    double seconds = 0;
    split = tenfold::split_step(torch::kCPU,
                                {1, tenfold::Parameters(),
                                 [&] {
                                   seconds += body();
                                   return Tensor();
                                 }},
                                kSteps)
                .value();
    return seconds;
  });
  const auto expect_within = [](double mean, const Bounds& bounds, const char* part) {
    constexpr double kRounding = 1e-9;
    EXPECT_GE(mean * kSteps, bounds.least - kRounding) << part;
    EXPECT_LE(mean * kSteps, bounds.most + kRounding) << part;
  };
  expect_within(split.data + split.copy, data, "data, and the copy inside");
  expect_within(split.communication, communication, "communication");
  expect_within(split.device, device, "device: operators outside the regions");
  EXPECT_GT(split.device, 0);
  EXPECT_GE(split.host * kSteps, host.least) << "sleeping outside any region is the lesson's own code";
  expect_within(split.data + split.host + split.device + split.copy + split.communication, whole, "all parts");
}

TEST(Split, TraceIsWritten) {
  const tenfold::test::Scratch scratch;
  const std::string path = (scratch.path() / "trace.json").string();
  tenfold::write_trace(torch::kCPU, toy_step(), 2, path);
  EXPECT_GT(std::filesystem::file_size(path), 1000U);
}

}  // namespace
