// What is alive over one step.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "common/harness/lesson.h"
#include "common/measure/memory.h"
#include "common/measure/timeline.h"

namespace {

using torch::Tensor;
constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kRounding = 4096;  // bytes that malloc adds, by what lies beside a block, are counted too

/// A step that keeps 4 MiB for backward, allocates 8 MiB more there for a moment, and updates in place.
tenfold::Step small_step(const Tensor& weight) {
  return {.items = 1, .update = [weight] {
            weight.mutable_grad() = Tensor();
            {
              const torch::NoGradGuard no_grad;  // as a checkpointed block's forward
              weight.mul(2);
            }
            Tensor product = weight * weight;  // 4 MiB, kept by sin()
            Tensor loss = product.sin().sum();
            loss.backward();
            {
              const torch::NoGradGuard no_grad;
              weight.sub_(weight.grad(), 0.1);
            }
            return loss.detach();
          }};
}

TEST(Timeline, ItsHighestPointIsThePeak) {
  const tenfold::CountCpuMemory counting;
  const Tensor weight = torch::ones({kMiB}).requires_grad_();  // 4 MiB
  const tenfold::Step step = small_step(weight);
  for (int warm = 0; warm < 2; ++warm) step.update();
  const int64_t before = tenfold::live_bytes(torch::kCPU);
  tenfold::reset_peak(torch::kCPU);
  step.update();
  const int64_t peak = tenfold::peak_bytes(torch::kCPU);
  const tenfold::Timeline timeline = tenfold::memory_timeline(torch::kCPU, step, 0);
  ASSERT_FALSE(timeline.bytes.empty());
  EXPECT_EQ(timeline.bytes.size(), timeline.region.size());
  EXPECT_LE(timeline.bytes.size(), tenfold::kMostTimelinePoints);
  EXPECT_NEAR(*std::max_element(timeline.bytes.begin(), timeline.bytes.end()), peak, kRounding);
  EXPECT_NEAR(timeline.bytes.back(), before, kRounding) << "the step leaves what it found";
  const tenfold::Timeline above = tenfold::memory_timeline(torch::kCPU, step, before);
  EXPECT_NEAR(above.bytes.back(), 0, kRounding);
}

TEST(Timeline, GradientsAndWhatStaysAreToldApart) {
  const tenfold::CountCpuMemory counting;
  const int64_t before = tenfold::live_bytes(torch::kCPU);
  const Tensor weight = torch::ones({kMiB}).requires_grad_();  // 4 MiB
  tenfold::Step step = small_step(weight);
  step.parameters.insert("weight", weight);
  for (int warm = 0; warm < 2; ++warm) step.update();
  const tenfold::Timeline timeline = tenfold::memory_timeline(torch::kCPU, step, before);
  EXPECT_FALSE(tenfold::memory_timeline(torch::kCPU, small_step(weight), before).gradients) << "no parameters named";
  ASSERT_TRUE(timeline.states && timeline.gradients);
  EXPECT_NEAR(*timeline.states, 4 * kMiB, kRounding) << "the weight";
  const std::vector<int64_t>& gradients = *timeline.gradients;
  ASSERT_EQ(gradients.size(), timeline.bytes.size());
  for (size_t i = 0; i < timeline.region.size(); ++i) {
    if (i > 0 && timeline.region[i] == "forward" && timeline.region[i - 1] == "forward" && gradients[i - 1] == 0)
      EXPECT_EQ(gradients[i], 0) << "freed before forward";
    if (timeline.region[i] == "optimizer") EXPECT_EQ(gradients[i], 4 * kMiB);
    EXPECT_LE(*timeline.states + gradients[i], timeline.bytes[i] + kRounding);
  }
}

// A step waits for a collective's result; the collective's own region ends a little later, on the transport's thread.
TEST(Timeline, ARegionMayEndOnAnotherThreadAfterTheStep) {
  std::mutex mutex;
  std::condition_variable ready;
  std::deque<std::shared_ptr<at::RecordFunction>> ended;  // an empty one says that no more come
  std::thread transport([&] {
    for (;;) {
      std::unique_lock lock(mutex);
      ready.wait(lock, [&] { return !ended.empty(); });
      const auto collective = ended.front();
      ended.pop_front();
      lock.unlock();
      if (!collective) return;
      collective->end();
    }
  });
  const auto hand_over = [&](std::shared_ptr<at::RecordFunction> collective) {
    const std::scoped_lock lock(mutex);
    ended.push_back(std::move(collective));
    ready.notify_one();
  };
  const tenfold::CountCpuMemory counting;
  const tenfold::Step step{.items = 1, .update = [&] {
                             auto collective = std::make_shared<at::RecordFunction>(at::RecordScope::USER_SCOPE);
                             if (collective->isActive()) {
                               collective->_setAsync();
                               collective->before("all_reduce");
                             }
                             hand_over(std::move(collective));
                             return torch::zeros({});
                           }};
  for (int i = 0; i < 20000; ++i) {
    const tenfold::Timeline timeline = tenfold::memory_timeline(torch::kCPU, step, 0);
    ASSERT_EQ(std::count(timeline.region.begin(), timeline.region.end(), "all_reduce"), 0);
  }
  hand_over(nullptr);
  transport.join();
}

TEST(Timeline, RegionsComeInTheirOrder) {
  const tenfold::CountCpuMemory counting;
  const Tensor weight = torch::ones({kMiB}).requires_grad_();
  const tenfold::Timeline timeline = tenfold::memory_timeline(torch::kCPU, small_step(weight), 0);
  std::vector<std::string> order = timeline.region;
  order.erase(std::unique(order.begin(), order.end()), order.end());
  EXPECT_EQ(order, (std::vector<std::string>{"forward", "backward", "optimizer", "forward"}))
      << "the last operator, detach(), is outside no_grad";
}

TEST(Timeline, ARegionEndsItselfAndNoOther) {
  const tenfold::CountCpuMemory counting;
  const tenfold::Step step{.items = 1, .update = [] {
                             at::RecordFunction first(at::RecordScope::USER_SCOPE);
                             at::RecordFunction second(at::RecordScope::USER_SCOPE);
                             first.before("data");
                             second.before("copy");
                             first.end();
                             Tensor copied = torch::ones({16});
                             second.end();
                             return copied.sum();
                           }};
  const tenfold::Timeline timeline = tenfold::memory_timeline(torch::kCPU, step, 0);
  std::vector<std::string> order = timeline.region;
  order.erase(std::unique(order.begin(), order.end()), order.end());
  EXPECT_EQ(order, (std::vector<std::string>{"forward", "data", "copy", "forward"}));
}

TEST(Timeline, ManyOperatorsBecomeAFewPointsAndKeepThePeak) {
  const tenfold::CountCpuMemory counting;
  const int64_t before = tenfold::live_bytes(torch::kCPU);
  const tenfold::Step step{.items = 1, .update = [] {
                             Tensor sum = torch::zeros({16});
                             for (int i = 0; i < 3000; ++i)
                               sum += i == 1234 ? torch::ones({kMiB})[0] : torch::ones({16})[0];
                             return sum.sum();
                           }};
  const tenfold::Timeline timeline = tenfold::memory_timeline(torch::kCPU, step, before);
  EXPECT_EQ(timeline.bytes.size(), tenfold::kMostTimelinePoints);
  EXPECT_GE(*std::max_element(timeline.bytes.begin(), timeline.bytes.end()), 4 * kMiB);
}

}  // namespace
