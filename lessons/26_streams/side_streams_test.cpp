// The order that fork_join() promises, on threads: work that meets, fails, or must not have begun.
#include "side_streams.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <set>
#include <stdexcept>
#include <thread>

#include "common/measure/memory.h"
#include "tests/support/support.h"

namespace {

using tenfold::fork_join;
using tenfold::SideThreads;
using namespace std::chrono_literals;

TEST(ForkJoin, DoesEveryBranchOnceOnItsStream) {
  for (const size_t sides : {0U, 1U, 3U}) {
    SideThreads streams(sides);
    std::array<std::atomic<int>, 7> times{};
    std::array<std::thread::id, 7> threads;
    fork_join(streams, times.size(), [&](size_t i) {
      ++times[i];
      threads[i] = std::this_thread::get_id();
    });
    for (size_t i = 0; i < times.size(); ++i) {
      EXPECT_EQ(times[i], 1) << "branch " << i << " with " << sides << " side streams";
      EXPECT_EQ(threads[i], threads[i % (sides + 1)]) << "branch " << i;
    }
    EXPECT_EQ(threads[0], std::this_thread::get_id());
    EXPECT_EQ(std::set(threads.begin(), threads.end()).size(), sides + 1);
  }
}

// Each waits until the other has begun: one after the other neither would see it.
TEST(ForkJoin, BranchesRunAtTheSameTime) {
  SideThreads streams(1);
  std::array<std::promise<void>, 2> begun;
  std::array<bool, 2> met{};
  fork_join(streams, 2, [&](size_t i) {
    begun[i].set_value();
    met[i] = begun[1 - i].get_future().wait_for(5s) == std::future_status::ready;
  });
  EXPECT_TRUE(met[0] && met[1]);
}

TEST(ForkJoin, TheCallerFindsAllBranchesDone) {
  SideThreads streams(3);
  for (int round = 0; round < 20; ++round) {
    std::array<int, 8> written{};  // not atomic: ThreadSanitizer sees a join that does not wait
    fork_join(streams, written.size(), [&](size_t i) {
      std::this_thread::sleep_for(std::chrono::microseconds(100 * i));
      written[i] = round + 1;
    });
    for (const int value : written) EXPECT_EQ(value, round + 1);
  }
}

TEST(ForkJoin, AnErrorIsThrownOnAfterAllBranches) {
  for (const size_t failing : {0U, 1U}) {
    SideThreads streams(2);
    std::atomic<int> done = 0;
    const auto all = [&] {
      fork_join(streams, 3, [&](size_t i) {
        if (i == failing) throw std::runtime_error("branch " + std::to_string(i));
        std::this_thread::sleep_for(20ms);
        ++done;
      });
    };
    EXPECT_EQ(tenfold::test::message_of<std::runtime_error>(all), "branch " + std::to_string(failing));
    EXPECT_EQ(done, 2) << "branches that use the caller's variables have ended";
  }
}

TEST(ForkJoin, AfterAnErrorTheNextCallIsLikeTheFirst) {
  for (const size_t sides : {0U, 1U, 2U}) {
    for (const size_t failing : {0U, 1U, 2U, 4U}) {
      SideThreads streams(sides);
      std::array<std::atomic<int>, 5> times{};
      const auto call = [&](bool fails) {
        fork_join(streams, times.size(), [&](size_t i) {
          if (fails && i == failing) throw std::runtime_error("branch " + std::to_string(i));
          ++times[i];
        });
      };
      EXPECT_EQ(tenfold::test::message_of<std::runtime_error>([&] { call(true); }),
                "branch " + std::to_string(failing));
      for (size_t i = 0; i < times.size(); ++i)
        EXPECT_EQ(times[i], i == failing ? 0 : 1) << "branch " << i << " beside a failing one, as on CUDA streams";
      EXPECT_NO_THROW(call(false));
      for (size_t i = 0; i < times.size(); ++i) EXPECT_EQ(times[i], i == failing ? 1 : 2) << "branch " << i;
    }
  }
}

TEST(ForkJoin, OfSeveralErrorsThatOfTheFirstBranchIsThrown) {
  for (const size_t sides : {1U, 2U, 4U}) {
    SideThreads streams(sides);
    const auto all = [&] {
      fork_join(streams, 6, [](size_t i) {
        if (i % 2 == 0) std::this_thread::sleep_for(1ms);
        if (i > 0) throw std::runtime_error("branch " + std::to_string(i));
      });
    };
    for (int round = 0; round < 3; ++round)
      EXPECT_EQ(tenfold::test::message_of<std::runtime_error>(all), "branch 1") << sides << " side streams";
  }
}

TEST(SideThreads, AnErrorComesOutOnceAndNewWorkIsTaken) {
  SideThreads streams(2);
  int done = 0;
  streams.run(0, [] { throw std::runtime_error("first"); });
  streams.run(0, [&] { done += 1; });  // left out
  EXPECT_EQ(tenfold::test::message_of<std::runtime_error>([&] { streams.caller_waits(0); }), "first");
  EXPECT_NO_THROW(streams.caller_waits(0));
  EXPECT_NO_THROW(streams.caller_waits(1));
  streams.run(0, [&] { done += 10; });
  streams.caller_waits(0);
  EXPECT_EQ(done, 10);
}

TEST(SideThreads, HoldTheirWorkUntilTheyAreLetGo) {
  SideThreads streams(2);
  std::atomic<int> begun = 0;
  streams.hold();
  for (size_t i = 0; i < 2; ++i) streams.run(i, [&] { ++begun; });
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(begun, 0);
  streams.let_go();
  for (size_t i = 0; i < 2; ++i) streams.caller_waits(i);
  EXPECT_EQ(begun, 2);
}

TEST(SideThreads, HaveTheCallersIntraOpThreads) {
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  SideThreads streams(1);
  int inside = 0;
  streams.run(0, [&] { inside = at::get_num_threads(); });
  streams.caller_waits(0);
  EXPECT_EQ(inside, 1);
  at::set_num_threads(before);
}

// cuBLAS keeps a workspace for each thread and stream: whoever makes new streams for each training pays it each time.
TEST(CudaSideStreams, ComputeInTheWorkspacesOfTheFirst) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "needs a CUDA device";
  const torch::Tensor x = torch::ones({64, 64}, torch::kCUDA);
  const auto live_after_training = [&] {
    const auto sides = tenfold::side_streams(torch::kCUDA, 2);
    for (size_t i = 0; i < 2; ++i) {
      sides->stream_waits(i);
      sides->run(i, [&] { torch::mm(x, x); });
      sides->caller_waits(i);
    }
    return tenfold::live_bytes(torch::kCUDA);
  };
  const int64_t before = tenfold::live_bytes(torch::kCUDA), once = live_after_training();
  EXPECT_GE(once - before, int64_t{2} * 8 << 20) << "it would not notice";
  EXPECT_EQ(live_after_training(), once);
}

TEST(SideStreams, AreRefusedWhereThereAreNone) { EXPECT_THROW(tenfold::side_streams(torch::kMeta, 1), c10::Error); }

}  // namespace
