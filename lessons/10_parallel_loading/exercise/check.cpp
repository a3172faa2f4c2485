#include <gtest/gtest.h>

#include EXERCISE

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace {

TEST(Exercise10, TakesInOrder) {
  Reorder batches;
  for (const int64_t index : {2, 0, 3, 1}) batches.put(index, static_cast<int>(10 * index));
  std::vector<int> taken;
  for (int i = 0; i < 4; ++i) taken.push_back(batches.take().value_or(-1));
  EXPECT_EQ(taken, (std::vector<int>{0, 10, 20, 30}));
}

TEST(Exercise10, WaitsForTheBatchThatIsNext) {
  Reorder batches;
  std::atomic<bool> came{false};
  std::thread late([&] {
    batches.put(1, 11);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    came = true;
    batches.put(0, 10);
  });
  const auto first = batches.take();
  EXPECT_TRUE(came) << "hint: batch 1 was there, but batch 0 is next";
  EXPECT_EQ(first, 10);
  EXPECT_EQ(batches.take(), 11);
  late.join();
}

TEST(Exercise10, LosesNothingWithManyThreads) {
  Reorder batches;
  std::vector<std::thread> workers;
  for (int64_t worker = 0; worker < 4; ++worker) {
    workers.emplace_back([&, worker] {
      for (int64_t index = worker; index < 400; index += 4) batches.put(index, static_cast<int>(index));
    });
  }
  for (std::thread& worker : workers) worker.join();
  int expected = 0;
  while (expected < 400 && batches.take() == expected) ++expected;
  EXPECT_EQ(expected, 400);
}

TEST(Exercise10, StopsWhoeverWaits) {
  Reorder batches;
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    batches.stop();
    batches.put(0, 5);  // too late; and it wakes a take() that forgot to
  });
  EXPECT_EQ(batches.take(), std::nullopt);
  stopper.join();
}

}  // namespace
