// The watch speaks of leaks, soon and with the right place, and of nothing else.
#include "leak_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/support.h"

namespace tenfold {
namespace {

using torch::Tensor;
constexpr int64_t kKiB = 1024;

Tensor block(int64_t kib) { return torch::ones({kib * kKiB / 4}); }

/// What the watch says of the first `steps` steps.
std::vector<Leak> watched(int64_t steps, const std::function<void(int64_t)>& step,
                          const LeakWatchOptions& options = {}) {
  LeakWatch watch(torch::kCPU, options);
  std::vector<Leak> leaks;
  for (int64_t i = 1; i <= steps; ++i) {
    step(i);
    if (auto leak = watch.step()) leaks.push_back(std::move(*leak));
  }
  return leaks;
}

/// 1 to 64 KiB, drawn anew for each step.
struct Sizes {
  std::mt19937_64 random{4};
  int64_t next() { return 1 + static_cast<int64_t>(random() % 64); }
};

struct Habit {
  std::string name;
  std::function<std::function<void(int64_t)>()> make;
};

std::vector<Habit> healthy_loops() {
  return {
      {"KeepsNothing", [] { return [](int64_t) { block(32); }; }},
      {"KeepsTheLastOutput",
       [] { return [last = Tensor(), sizes = Sizes()](int64_t) mutable { last = block(sizes.next()); }; }},
      {"MakesItsStateInTheFirstSteps",
       [] {
         return [state = std::vector<Tensor>()](int64_t step) mutable {
           if (step <= 3) state.push_back(block(1024));
           block(16);
         };
       }},
      {"ReplacesItsAverage", [] { return [average = block(64)](int64_t) mutable { average = average * 0.9; }; }},
      {"KeepsTheBestOfEvery50Steps",
       [] {
         return [best = Tensor()](int64_t step) mutable {
           if (step % 50 == 0) best = block(256);
         };
       }},
      {"HasAQueueOf64",
       [] {
         return [queue = std::deque<Tensor>(), sizes = Sizes()](int64_t) mutable {
           queue.push_back(block(sizes.next()));
           if (queue.size() > 64) queue.pop_front();
         };
       }},
      {"HasAQueueWhileLengthsGrowAndShrink",
       [] {
         return [queue = std::deque<Tensor>()](int64_t step) mutable {
           const int64_t phase = step % 400;
           queue.push_back(block(16 + std::min(phase, 400 - phase) / 4));
           if (queue.size() > 16) queue.pop_front();
         };
       }},
      {"KeepsAnEpochOf16",
       [] {
         return [outputs = std::vector<Tensor>()](int64_t step) mutable {
           outputs.push_back(block(16));
           if (step % 16 == 0) outputs.clear();
         };
       }},
      {"HasACacheThatFills",
       [] {
         return [cache = std::map<int64_t, Tensor>(), sizes = Sizes()](int64_t) mutable {
           const int64_t length = 1 + sizes.next() % 32;
           if (!cache.contains(length)) cache[length] = block(length);
         };
       }},
      {"WritesDownItsLosses",
       [] { return [losses = std::vector<Tensor>()](int64_t) mutable { losses.push_back(torch::ones({})); }; }},
  };
}

class HealthyLoop : public testing::TestWithParam<Habit> {};

TEST_P(HealthyLoop, IsNoLeakInTwoThousandSteps) {
  const auto leaks = watched(2000, GetParam().make());
  EXPECT_TRUE(leaks.empty()) << leaks.front().text();
}

INSTANTIATE_TEST_SUITE_P(Loops, HealthyLoop, testing::ValuesIn(healthy_loops()),
                         [](const auto& loop) { return loop.param.name; });

TEST(LeakWatch, FindsWhatEveryStepKeepsWithin80Steps) {
  std::vector<Tensor> kept, state;
  const auto leaks = watched(200, [&](int64_t step) {
    if (step == 1) state.push_back(block(1024));  // as an optimizer's
    block(512);
    RECORD_USER_SCOPE("validation");
    kept.push_back(torch::ones({16 * kKiB}) * 2);
  });
  ASSERT_EQ(leaks.size(), 2U) << "once, and once more at twice as much";
  EXPECT_LE(leaks[0].step, 80);
  EXPECT_DOUBLE_EQ(leaks[0].bytes_per_step, 64 * kKiB);
  ASSERT_EQ(leaks[0].places.size(), 1U) << leaks[0].text();
  EXPECT_EQ(leaks[0].places[0].name, "validation > aten::mul");
  EXPECT_DOUBLE_EQ(leaks[0].places[0].bytes_per_step, 64 * kKiB);
  EXPECT_DOUBLE_EQ(leaks[0].places[0].blocks_per_step, 1);
}

TEST(LeakWatch, FindsALeakOfManySizesAmongWhatGoes) {
  std::vector<Tensor> kept;
  std::deque<Tensor> queue;
  Sizes sizes;
  const auto leaks = watched(200, [&](int64_t) {
    queue.push_back(block(sizes.next()));
    if (queue.size() > 4) queue.pop_front();
    RECORD_USER_SCOPE("cache");
    kept.push_back(torch::zeros({sizes.next() * kKiB / 4}));
  });
  ASSERT_FALSE(leaks.empty());
  EXPECT_LE(leaks[0].step, 120);
  EXPECT_NEAR(leaks[0].bytes_per_step, 32.5 * kKiB, 10 * kKiB);
  ASSERT_FALSE(leaks[0].places.empty());
  EXPECT_EQ(leaks[0].places[0].name, "cache > aten::zeros");
}

TEST(LeakWatch, FindsWhatOnlyEvery50thStepKeeps) {
  std::vector<Tensor> kept;
  const auto leaks = watched(1000, [&](int64_t step) {
    block(64);
    RECORD_USER_SCOPE("validation");
    if (step % 50 == 0) kept.push_back(block(400));
  });
  ASSERT_FALSE(leaks.empty());
  EXPECT_LE(leaks[0].step, 640);
  EXPECT_NEAR(leaks[0].bytes_per_step, 8 * kKiB, 4 * kKiB);
  ASSERT_FALSE(leaks[0].places.empty());
  EXPECT_EQ(leaks[0].places[0].name, "validation > aten::ones");
}

TEST(LeakWatch, SeesAGraphThatNobodyFreed) {
  torch::nn::Linear layer(64, 64);
  std::vector<Tensor> losses;
  const auto step_with = [&](bool backward) {
    losses.clear();
    return watched(100, [&, backward](int64_t) {
      Tensor loss = layer->forward(torch::ones({256, 64})).sigmoid().sum();
      if (backward) loss.backward();
      losses.push_back(loss);
    });
  };
  EXPECT_TRUE(step_with(true).empty()) << "backward() frees what the graph has kept";
  const auto leaks = step_with(false);
  ASSERT_FALSE(leaks.empty());
  EXPECT_NEAR(leaks[0].bytes_per_step, 2 * 64 * kKiB, kKiB) << "the layer's input and the sigmoid's result";
}

TEST(LeakWatch, AnotherThreadMayFreeABlock) {
  const auto leaks = watched(400, [](int64_t) {
    Tensor batch = block(64);
    std::thread([taken = std::move(batch)]() mutable { taken.reset(); }).join();
  });
  EXPECT_TRUE(leaks.empty()) << leaks.front().text();
}

TEST(LeakWatch, TwoOfThemSeeTheSame) {
  LeakWatch outer(torch::kCPU);
  std::vector<Tensor> kept;
  std::optional<Leak> seen_outside;
  const auto keep = [&](int64_t) {
    RECORD_USER_SCOPE("cache");
    kept.push_back(block(8));
    if (auto leak = outer.step(); leak && !seen_outside) seen_outside = std::move(leak);
  };
  const auto leaks = watched(100, keep);
  ASSERT_FALSE(leaks.empty());
  ASSERT_TRUE(seen_outside);
  for (const Leak& leak : {leaks[0], *seen_outside}) {
    ASSERT_EQ(leak.places.size(), 1U) << leak.text();
    EXPECT_EQ(leak.places[0].name, "cache > aten::ones");
  }
  kept.clear();
  seen_outside.reset();
  for (int step = 0; step < 200; ++step) keep(step);
  EXPECT_TRUE(seen_outside) << "the inner one is gone";
}

TEST(LeakWatch, ToleratesWhatItIsToldTo) {
  std::vector<Tensor> kept;
  const auto step = [&](int64_t) { kept.push_back(block(2)); };
  EXPECT_TRUE(watched(200, step, {.tolerated_bytes = 4 * kKiB}).empty());
  EXPECT_FALSE(watched(200, step).empty());
}

TEST(LeakWatch, OptionsWithoutMeaningAreRefused) {
  EXPECT_NE(test::message_of<c10::ValueError>([] { LeakWatch(torch::kCPU, {.window = 0}); }).find("window=0"),
            std::string::npos);
  EXPECT_NE(test::message_of<c10::ValueError>([] { LeakWatch(torch::kCPU, {.tolerated_bytes = -1}); }).find("=-1"),
            std::string::npos);
}

TEST(Leak, SaysWhatItFound) {
  const Leak leak{.step = 40,
                  .over_steps = 24,
                  .bytes_per_step = 4096.4,
                  .places = {{"validation > aten::conv2d", 4000, 1}, {"data > aten::mul", 96.4, 0.5}}};
  EXPECT_EQ(leak.text(1),
            "step 40: memory grew by 4096 bytes a step over 24 steps; what stays was allocated by\n"
            "  validation > aten::conv2d: 4000 bytes a step in 1 blocks\n  and 1 more");
}

}  // namespace
}  // namespace tenfold
