#include <gtest/gtest.h>

#include EXERCISE

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/gate.h"

namespace {

using tenfold::HostStream;
using tenfold::test::Gate;
using tenfold::test::soon;
using namespace std::chrono_literals;

TEST(Exercise12, UsesTheBuffersInTurn) {
  std::vector<int> filled, read;
  {
    HostStream copies, compute;
    Pipeline pipeline(copies, compute, 3);
    for (int i = 0; i < 7; ++i) {
      pipeline.start([&](int buffer) { filled.push_back(buffer); });
      pipeline.compute([&](int buffer) { read.push_back(buffer); });
    }
    copies.record().synchronize();
    compute.record().synchronize();
  }
  EXPECT_EQ(filled, (std::vector<int>{0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(read, filled);
}

TEST(Exercise12, AKernelWaitsForItsOwnCopy) {
  Gate gate;
  std::atomic<int> kernels = 0;
  HostStream copies, compute;
  Pipeline pipeline(copies, compute, 2);
  pipeline.start([](int) {});
  pipeline.start([&](int) { gate.wait(); });
  pipeline.compute([&](int) { ++kernels; });
  pipeline.compute([&](int) { ++kernels; });
  EXPECT_TRUE(soon([&] { return kernels == 1; }))
      << "hint: the first batch is there; wait for its copy, not for all copies";
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(kernels, 1) << "hint: the second batch has not arrived, and yet it was computed on";
  gate.open();
  compute.record().synchronize();
  EXPECT_EQ(kernels, 2);
}

TEST(Exercise12, OtherBatchesArriveWhileOneIsComputedOn) {
  Gate gate;
  std::atomic<int> copied = 0;
  HostStream copies, compute;
  Pipeline pipeline(copies, compute, 4);
  pipeline.start([&](int) { ++copied; });
  pipeline.compute([&](int) { gate.wait(); });
  for (int i = 0; i < 3; ++i) pipeline.start([&](int) { ++copied; });
  EXPECT_TRUE(soon([&] { return copied == 4; }))
      << "hint: three buffers were free, but only " << copied << " of four copies were done";
  pipeline.start([&](int) { ++copied; });  // into the buffer that is being read
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(copied, 4) << "hint: this buffer's kernel was still reading when it was refilled";
  gate.open();
  copies.record().synchronize();
  EXPECT_EQ(copied, 5);
}

TEST(Exercise12, TheHostNeverWaits) {
  Gate gate;
  HostStream copies, compute;
  Pipeline pipeline(copies, compute, 2);
  const auto begin = std::chrono::steady_clock::now();
  const auto waited = [&] { return std::chrono::steady_clock::now() - begin >= 4s; };
  for (int i = 0; i < 6 && !waited(); ++i) {
    pipeline.start([&](int) {});
    pipeline.compute([&](int) { gate.wait(); });
  }
  EXPECT_FALSE(waited()) << "hint: let a stream wait for an event, not the caller";
  gate.open();
}

TEST(Exercise12, NothingIsReadTornOrTwice) {
  constexpr int kSlots = 3, kBatches = 300;
  std::vector<int> buffers(kSlots, -1), seen;
  {
    HostStream copies, compute;
    Pipeline pipeline(copies, compute, kSlots);
    for (int i = 0; i < kBatches; ++i) {
      pipeline.start([&buffers, i](int buffer) {
        if (i % 7 == 0) std::this_thread::sleep_for(100us);
        buffers[static_cast<size_t>(buffer)] = i;
      });
      pipeline.compute([&buffers, &seen, i](int buffer) {
        if (i % 5 == 0) std::this_thread::sleep_for(100us);
        seen.push_back(buffers[static_cast<size_t>(buffer)]);
      });
    }
    compute.record().synchronize();
  }
  ASSERT_EQ(seen.size(), static_cast<size_t>(kBatches)) << "hint: each compute() queues one kernel";
  for (int i = 0; i < kBatches; ++i)
    ASSERT_EQ(seen[static_cast<size_t>(i)], i) << "hint: kernel " << i << " met another batch";
}

}  // namespace
