#include <gtest/gtest.h>

#include EXERCISE

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

/// What `count` calls of take() return, -1 for nothing. An answer that is still waiting after five seconds fails with
/// `hint`; its thread is left behind, with its share of the batches.
std::optional<std::vector<int>> take(const std::shared_ptr<Reorder>& batches, int count, const char* hint) {
  std::packaged_task<std::vector<int>()> task([batches, count] {
    std::vector<int> taken;
    for (int i = 0; i < count; ++i) taken.push_back(batches->take().value_or(-1));
    return taken;
  });
  auto taken = task.get_future();
  std::thread(std::move(task)).detach();
  if (taken.wait_for(5s) == std::future_status::ready) return taken.get();
  ADD_FAILURE() << "take() still waits after 5 s\nhint: " << hint;
  return std::nullopt;
}

TEST(Exercise10, TakesInOrder) {
  const auto batches = std::make_shared<Reorder>();
  for (const int64_t index : {2, 0, 3, 1}) batches->put(index, static_cast<int>(10 * index));
  const auto taken = take(batches, 4, "all batches were put before; does take() look before it waits?");
  if (taken) {
    EXPECT_EQ(*taken, (std::vector<int>{0, 10, 20, 30}));
  }
}

TEST(Exercise10, WaitsForTheBatchThatIsNext) {
  const auto batches = std::make_shared<Reorder>();
  const auto came = std::make_shared<std::atomic<bool>>(false);
  std::thread late([=] {
    batches->put(1, 11);
    std::this_thread::sleep_for(50ms);
    *came = true;
    batches->put(0, 10);
  });
  const auto taken = take(batches, 2, "batch 0 was put while take() waited for it; does put() wake whoever waits?");
  EXPECT_TRUE(*came) << "hint: batch 1 was there, but batch 0 is next";
  if (taken) {
    EXPECT_EQ(*taken, (std::vector<int>{10, 11}));
  }
  late.join();
}

TEST(Exercise10, LosesNothingWithManyThreads) {
  const auto batches = std::make_shared<Reorder>();
  std::vector<std::thread> workers;
  std::vector<int> expected;
  for (int index = 0; index < 400; ++index) expected.push_back(index);
  for (int64_t worker = 0; worker < 4; ++worker) {
    workers.emplace_back([=] {
      for (int64_t index = worker; index < 400; index += 4) batches->put(index, static_cast<int>(index));
    });
  }
  for (std::thread& worker : workers) worker.join();
  const auto taken =
      take(batches, 400, "400 batches were put by four threads at once; is one lost? What protects the map?");
  if (taken) {
    EXPECT_EQ(*taken, expected);
  }
}

TEST(Exercise10, StopsWhoeverWaits) {
  const auto batches = std::make_shared<Reorder>();
  std::thread stopper([=] {
    std::this_thread::sleep_for(20ms);
    batches->stop();
  });
  const std::vector<int> nothing{-1};
  auto taken = take(batches, 1,
                    "stop() was called while take() waited; does it wake whoever waits, and does take() look for it?");
  if (taken) {
    EXPECT_EQ(*taken, nothing);
  }
  stopper.join();
  batches->put(0, 5);  // too late
  taken = take(batches, 1, "after stop() nobody has to wait");
  if (taken) {
    EXPECT_EQ(*taken, nothing) << "hint: after stop() there is nothing to take";
  }
}

}  // namespace
